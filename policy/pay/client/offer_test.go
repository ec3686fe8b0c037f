package client

import (
	"encoding/base64"
	"testing"
)

// FuzzPrices: a server's price is refused, or parsed into values within the bounds.
func FuzzPrices(f *testing.F) {
	one := `{"scheme":"exact","network":"base","amount":"5","maxAmountRequired":"5","asset":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","payTo":"0x00000000000000000000000000000000000000aa","maxTimeoutSeconds":60,"extra":{"name":"USDC","version":"2"}}`
	f.Add("", []byte(`{"x402Version":1,"accepts":[`+one+`]}`))
	f.Add(base64.StdEncoding.EncodeToString([]byte(`{"x402Version":2,"resource":{},"accepts":[`+one+`]}`)), []byte(`{}`))
	f.Add("!", []byte(`{"x402Version":1,"accepts":[1,null,{"amount":"99999999999999999999"}]}`))
	f.Fuzz(func(t *testing.T, required string, body []byte) {
		offers, _, err := readOffers(required, body)
		if err != nil && len(offers) > 0 {
			t.Error("an error with offers")
		}
		for _, o := range offers {
			if o.Amount <= 0 || uint64(o.Amount) > maxValue || o.Version != 1 && o.Version != 2 {
				t.Errorf("%+v", o)
			}
			r := Rules{}
			if _, why := r.allows(&o); why == "" {
				t.Errorf("no rules allow %+v", o)
			}
		}
		for _, c := range clip(required) {
			if c < ' ' || c > '~' {
				t.Errorf("%q is shown", c)
			}
		}
		_, _ = readReceipt(func(string) string { return required })
	})
}
