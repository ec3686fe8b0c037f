package blockrun_test

import (
	"testing"

	"bardo.money/gateway/extproc/provider/blockrun"
	"bardo.money/gateway/extproc/provider/providertest"
)

func TestConformance(t *testing.T) { providertest.Run(t, blockrun.Adapter{}) }
