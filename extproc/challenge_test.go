package extproc

import (
	"net/http"
	"testing"

	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
)

// TestAPayersChallengeReachesTheClient: a 402 with the payer's own body and headers, else with the dialect's error.
func TestAPayersChallengeReachesTheClient(t *testing.T) {
	for _, body := range []string{"", `{"accepts":[]}`} {
		x := &exchange{View: request.View{Dialect: openai.Dialect{}}}
		x.initReport(&Gateway{})
		c := meter.Challenge{Header: header.List{{Name: "www-authenticate", Value: "Payment"}}}
		if body != "" {
			c.Body = []byte(body)
		}
		r := x.report.Error(c.Fault())
		if r.Status != http.StatusPaymentRequired || r.Header.Get("www-authenticate") != "Payment" || len(r.Body) == 0 || body != "" && string(r.Body) != body {
			t.Errorf("%d %v %s", r.Status, r.Header, r.Body)
		}
	}
}
