package deepseek_test

import (
	"testing"

	"bardo.money/gateway/extproc/provider/deepseek"
	"bardo.money/gateway/extproc/provider/providertest"
)

func TestConformance(t *testing.T) { providertest.Run(t, deepseek.Adapter{}) }
