package policy

import "testing"

func TestStatusesThatAreRetried(t *testing.T) {
	for status, want := range map[int]struct{ retried, lasting bool }{
		100: {true, false}, 101: {true, false}, 200: {}, 204: {}, 301: {true, true}, 302: {true, false}, 308: {true, true},
		400: {}, 401: {true, true}, 402: {true, true}, 403: {true, true}, 404: {}, 408: {true, false}, 409: {}, 410: {true, true},
		413: {}, 422: {}, 429: {true, false}, 500: {true, false}, 503: {true, false}, 529: {true, false}, 599: {true, false},
	} {
		if got := Retriable(status); got != want.retried {
			t.Errorf("%d is retried: %v", status, got)
		}
		if got := Lasting(status); got != want.lasting {
			t.Errorf("%d lasts: %v", status, got)
		}
	}
}
