package venice_test

import (
	"testing"

	"bardo.money/gateway/extproc/provider/venice"
	"bardo.money/gateway/extproc/provider/providertest"
)

func TestConformance(t *testing.T) { providertest.Run(t, venice.Adapter{}) }
