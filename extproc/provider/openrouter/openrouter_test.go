package openrouter_test

import (
	"testing"

	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/extproc/provider/providertest"
)

func TestConformance(t *testing.T) { providertest.Run(t, openrouter.Adapter{}) }
