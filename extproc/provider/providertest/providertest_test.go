package providertest_test

import (
	"testing"

	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/provider/demo"
	"bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/provider/providertest"
)

func TestAdaptersConform(t *testing.T) {
	providertest.Run(t, openai.Adapter{}, anthropic.Adapter{}, custom.Adapter{}, demo.Adapter{})
}
