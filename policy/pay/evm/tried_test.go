package evm

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bardo.money/gateway/policy/pay"
)

// TestWhatTheTokenRefusesIsNotTaken, with a sufficient balance and a valid signature: the balance may be frozen.
func TestWhatTheTokenRefusesIsNotTaken(t *testing.T) {
	much, none := `"0x`+strings.Repeat("0", 48)+strings.Repeat("f", 16)+`"`, `"0x`+strings.Repeat("0", 64)+`"`
	for _, row := range []struct{ moved, want string }{
		{`"result":` + none, ""},
		{`"error":{"code":3,"message":"execution reverted: blacklisted"}`, pay.ReasonTransfer},
		{`"error":{"code":-32000,"message":"gas required exceeds allowance (600000)"}`, pay.ReasonTransfer},
		{`"error":{"code":-32000,"message":"header not found"}`, "not a refusal"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var batch []struct{ ID json.RawMessage }
			if err := json.NewDecoder(r.Body).Decode(&batch); err != nil || len(batch) != 3 {
				t.Errorf("%v, %d messages", err, len(batch))
				return
			}
			w.Header().Set("Content-Type", "application/json")
			var all []string
			for i, answer := range []string{row.moved, `"result":` + none, `"result":` + much} {
				all = append(all, `{"jsonrpc":"2.0","id":`+string(batch[i].ID)+`,`+answer+`}`)
			}
			_, _ = io.WriteString(w, "["+strings.Join(all, ",")+"]")
		}))
		t.Cleanup(s.Close)
		n, err := Open(t.Context(), pay.NodeOptions{URL: s.URL, Key: key, Terms: terms})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.rpc.Close)
		err = n.simulateTransfer(t.Context(), vector())
		r, refused := errors.AsType[*pay.Refusal](err)
		switch {
		case row.want == "" && err == nil:
		case refused && r.Reason == row.want:
		case row.want == "not a refusal" && err != nil && !refused:
		default:
			t.Errorf("%s: %v", row.moved, err)
		}
	}
}
