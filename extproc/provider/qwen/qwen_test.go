package qwen_test

import (
	"testing"

	"bardo.money/gateway/extproc/provider/qwen"
	"bardo.money/gateway/extproc/provider/providertest"
)

func TestConformance(t *testing.T) { providertest.Run(t, qwen.Adapter{}) }
