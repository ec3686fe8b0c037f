package bankr_test

import (
	"testing"

	"bardo.money/gateway/extproc/provider/bankr"
	"bardo.money/gateway/extproc/provider/providertest"
)

func TestConformance(t *testing.T) { providertest.Run(t, bankr.Adapter{}) }
