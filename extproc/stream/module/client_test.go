package module

import "testing"

// TestARequestEndsOnce: a client has no Envoy here, so that taking from it ends the test program.
func TestARequestEndsOnce(t *testing.T) {
	d := &client{requestEnded: true, endPassed: true}
	d.take(0)
	if len(d.events) > 0 {
		t.Errorf("%d pieces came behind the request's end", len(d.events))
	}
}
