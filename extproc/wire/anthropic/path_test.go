package anthropic

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
)

func TestNoKeyInAQueryReachesAProvider(t *testing.T) {
	t.Parallel()
	at := provider.Endpoint{BasePath: "/v1"}
	for query, want := range map[string]string{"beta=true&key=secret": "/v1/messages?beta=true", "key=secret": "/v1/messages", "": "/v1/messages"} {
		if got := callPath(&chat.Request{Query: query}, at, true); got != want {
			t.Errorf("%q: %s", query, got)
		}
	}
}
