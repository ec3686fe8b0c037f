package facilitator

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/policy/pay"
)

var (
	known, _ = pay.FindNetwork("base-sepolia")
	terms    = &pay.Terms{Network: known.Network, Asset: known.USDC, PayTo: pay.Address{19: 0xaa}}
	good     = &pay.Payment{Authorization: pay.Authorization{From: pay.Address{1}, To: terms.PayTo, Value: 5000, ValidBefore: 99}, Signature: make([]byte, 65)}
	hash     = "0x" + strings.Repeat("ab", 32)
)

// start is a facilitator with fixed answers by path: a status and a body.
func start(t *testing.T, answers map[string]string, asked *atomic.Int64) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked != nil {
			asked.Add(1)
		}
		if r.Method == http.MethodPost {
			checkOrder(t, r)
		}
		status, body, _ := strings.Cut(answers[r.URL.Path], " ")
		switch status {
		case "200":
		case "redirect":
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case "400":
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return New(Options{URL: s.URL + "/a-secret/", Authorization: "Bearer k", Terms: terms})
}

// checkOrder verifies that the payload, the accepted requirement and the requirements of a message agree.
func checkOrder(t *testing.T, r *http.Request) {
	t.Helper()
	var m struct {
		Version int `json:"x402Version"`
		Payload struct {
			Version  int    `json:"x402Version"`
			Network  string `json:"network"`
			Accepted struct{ Amount, PayTo string }
			Payload  struct {
				Signature     string
				Authorization struct{ From, To, Value, Nonce string }
			}
		} `json:"paymentPayload"`
		Requirements struct {
			Amount, PayTo, Network string
			Most                   string `json:"maxAmountRequired"`
		} `json:"paymentRequirements"`
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get("Authorization") != "Bearer k" {
		t.Errorf("%v, %v", err, r.Header)
	}
	a := m.Payload.Payload.Authorization
	if a.Value != "5000" || a.To != terms.PayTo.String() || m.Requirements.PayTo != a.To || len(m.Payload.Payload.Signature) != 132 || len(a.Nonce) != 66 || m.Version != m.Payload.Version {
		t.Errorf("%+v", m)
	}
	switch m.Version {
	case 1:
		if m.Requirements.Most != "5000" || m.Requirements.Network != "base-sepolia" || m.Payload.Network != "base-sepolia" {
			t.Errorf("%+v", m)
		}
	case 2:
		if m.Requirements.Amount != "5000" || m.Payload.Accepted.Amount != "5000" || m.Requirements.Network != "eip155:84532" || m.Payload.Accepted.PayTo != a.To {
			t.Errorf("%+v", m)
		}
	default:
		t.Errorf("version %d", m.Version)
	}
}

const both = `200 {"kinds":[{"x402Version":1,"scheme":"exact","network":"base-sepolia"},{"x402Version":2,"scheme":"exact","network":"eip155:84532"}]}`

// TestWhatAFacilitatorSupports: the newest version for the network, queried once; none is a mismatch, no answer is not.
func TestWhatAFacilitatorSupports(t *testing.T) {
	for _, row := range []struct {
		answer   string
		version  int32
		mismatch bool
	}{
		{both, 2, false},
		{`200 {"kinds":[{"x402Version":1,"scheme":"exact","network":"base-sepolia"},{"x402Version":2,"scheme":"exact","network":"eip155:8453"},{"x402Version":2,"scheme":"upto","network":"eip155:84532"}]}`, 1, false},
		{`200 {"kinds":[{"x402Version":1,"scheme":"exact","network":"eip155:84532"},{"x402Version":3,"scheme":"exact","network":"eip155:84532"}]}`, 0, true},
		{`200 {}`, 0, true},
		{`500 {"kinds":[]}`, 0, false},
		{`redirect {}`, 0, false},
		{`200 ` + strings.Repeat("x", maxAnswer+1), 0, false},
	} {
		var asked atomic.Int64
		c := start(t, map[string]string{"/a-secret/supported": row.answer}, &asked)
		err := c.Check(t.Context())
		_, mismatch := errors.AsType[*pay.Mismatch](err)
		if c.version.Load() != row.version || mismatch != row.mismatch || (err == nil) != (row.version > 0) {
			t.Errorf("%.80s: version %d, %v", row.answer, c.version.Load(), err)
		}
		if err != nil && strings.Contains(err.Error(), "a-secret") {
			t.Errorf("the address is shown: %v", err)
		}
		if _ = c.Check(t.Context()); row.version > 0 && asked.Load() != 1 {
			t.Errorf("it was asked %d times", asked.Load())
		}
	}
}

// TestVerifications: only an explicit no is a refusal, and only an explicit yes succeeds.
func TestVerifications(t *testing.T) {
	for _, row := range []struct{ answer, want string }{
		{`200 {"isValid":true}`, ""},
		{`200 {"isValid":false,"invalidReason":"insufficient_funds"}`, "insufficient_funds"},
		{`400 {"isValid":false,"invalidReason":"<script>"}`, pay.ReasonTransfer},
		{`400 {"isValid":true}`, "?"},
		{`500 {"error":"x"}`, "?"},
		{`200 {}`, "?"},
		{`200 no`, "?"},
		{`redirect `, "?"},
		{`200 {"isValid":"yes"}`, "?"},
	} {
		answer, want := row.answer, row.want
		err := start(t, map[string]string{"/a-secret/supported": both, "/a-secret/verify": answer}, nil).Verify(t.Context(), good)
		r, refused := errors.AsType[*pay.Refusal](err)
		if (err == nil) != (want == "") || refused != (want != "" && want != "?") || refused && r.Reason != want {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
	}
	upTo := *good
	upTo.UpTo = true
	if _, ok := errors.AsType[*pay.Refusal](start(t, nil, nil).Verify(t.Context(), &upTo)); !ok {
		t.Error("scheme upto is taken")
	}
}

// TestK84Settlements: only an explicit no without a transaction is a refusal; after anything else the outcome is unknown.
func TestK84Settlements(t *testing.T) {
	for _, row := range []struct {
		answer        string
		refused, open bool
		hash          bool
	}{
		{`200 {"success":true,"transaction":"` + hash + `"}`, false, false, true},
		{`200 {"success":true,"transaction":"later"}`, false, false, false},
		{`200 {"success":false,"errorReason":"insufficient_funds","transaction":""}`, true, false, false},
		{`400 {"success":false}`, true, false, false},
		{`200 {"success":false,"errorReason":"settlement_pending","transaction":"` + hash + `"}`, false, true, true},
		{`200 {"success":false,"errorReason":"settlement_pending"}`, false, true, false},
		{`200 {"success":false,"errorReason":"unexpected_settle_error","transaction":"` + hash + `"}`, false, true, true},
		{`500 `, false, true, false},
		{`200 {}`, false, true, false},
	} {
		got, err := start(t, map[string]string{"/a-secret/supported": both, "/a-secret/settle": row.answer}, nil).Settle(t.Context(), &pay.Transfer{Authorization: good.Authorization, Amount: good.Value, Signature: good.Signature})
		_, refused := errors.AsType[*pay.Refusal](err)
		if refused != row.refused || (err != nil) != (row.refused || row.open) || (got != pay.Word{}) != row.hash {
			t.Errorf("%s: %s, %v", row.answer, got, err)
		}
	}
	for _, version := range []string{`200 {"kinds":[{"x402Version":1,"scheme":"exact","network":"base-sepolia"}]}`, both} {
		c := start(t, map[string]string{"/a-secret/supported": version, "/a-secret/settle": `200 {"success":true,"transaction":"` + hash + `"}`}, nil)
		if _, err := c.Settle(t.Context(), &pay.Transfer{Authorization: good.Authorization, Amount: good.Value, Signature: good.Signature}); err != nil {
			t.Error(err)
		}
	}
}
