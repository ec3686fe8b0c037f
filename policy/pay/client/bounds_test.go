package client

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// offerOf is a valid offer for an amount.
func offerOf(amount uint64) string {
	return fmt.Sprintf(`{"scheme":"exact","network":"base","amount":"%[1]d","maxAmountRequired":"%[1]d","asset":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","payTo":"0x00000000000000000000000000000000000000aa","maxTimeoutSeconds":60}`, amount)
}

// priceOf is a price of some offers.
func priceOf(version, offers int, amount uint64) string {
	return fmt.Sprintf(`{"x402Version":%d,"accepts":[%s]}`, version, strings.TrimSuffix(strings.Repeat(offerOf(amount)+",", offers), ","))
}

// TestWhatAServerNamesIsBounded: the size of the header, the number of offers, the amount, and the version for the header or body.
func TestWhatAServerNamesIsBounded(t *testing.T) {
	wide := func(size int) string {
		text := priceOf(2, 1, 5)
		return base64.StdEncoding.EncodeToString([]byte(text + strings.Repeat(" ", size/4*3-len(text))))
	}
	packed := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, row := range []struct {
		name, header, body string
		read, unread       int
		err                string
	}{
		{"a header of the maximum size", wide(maxHeader), "", 1, 0, ""},
		{"a longer header", wide(maxHeader + 4), "", 0, 0, "it has more than 32768 bytes"},
		{"the maximum number of offers", "", priceOf(1, maxOffers, 5), maxOffers, 0, ""},
		{"too many offers", "", priceOf(1, maxOffers+1, 5), 0, 0, errNoOffers.Error()},
		{"the maximum amount", "", priceOf(1, 1, maxValue), 1, 0, ""},
		{"too high an amount", "", priceOf(1, 1, maxValue+1), 0, 1, ""},
		{"version 1 in the header", packed(priceOf(1, 1, 5)), "", 0, 0, errNoPrice.Error()},
		{"version 2 in the body", "", priceOf(2, 1, 5), 0, 0, errNoPrice.Error()},
		{"version 3", packed(priceOf(3, 1, 5)), "", 0, 0, errNoPrice.Error()},
		{"the header before the body", packed(priceOf(2, 2, 5)), priceOf(1, 1, 5), 2, 0, ""},
	} {
		offers, unread, err := readOffers(row.header, []byte(row.body))
		if len(offers) != row.read || len(unread) != row.unread || (err != nil) != (row.err != "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %d offers, %q, %v", row.name, len(offers), unread, err)
		}
	}
}

// TestAReceiptIsReadAsItCanBeShown: an invalid transaction is dropped, and a reason is made printable and short.
func TestAReceiptIsReadAsItCanBeShown(t *testing.T) {
	word := "0x" + strings.Repeat("ab", 32)
	for text, want := range map[string]Receipt{
		`{"success":true,"transaction":"` + word + `"}`:                                  {Success: true, Transaction: word},
		`{"success":true,"transaction":"` + word + `00"}`:                                {Success: true},
		`{"success":true,"transaction":"\u001b[2J"}`:                                     {Success: true},
		`{"success":false,"errorReason":"no\n\u001b[2J` + strings.Repeat("z", 90) + `"}`: {ErrorReason: "no??[2J" + strings.Repeat("z", 73)},
	} {
		got, ok := readReceipt(func(name string) string {
			if name != headerResponse1 {
				return ""
			}
			return base64.StdEncoding.EncodeToString([]byte(text))
		})
		if !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, ok, want)
		}
	}
	if got, ok := readReceipt(func(string) string {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", maxHeader) + "{}"))
	}); ok {
		t.Errorf("a receipt that is too long: %+v", got)
	}
}

// TestSchemeUpToIsAllowedAsItIsSigned: in version 2, and with a facilitator.
func TestSchemeUpToIsAllowedAsItIsSigned(t *testing.T) {
	k, _ := pay.FindNetwork("base")
	r := &Rules{Assets: []Asset{{k.Network, k.USDC}}, Payees: []pay.Address{{1}}, MaxPrice: policy.USD}
	o := Offer{Version: 2, Scheme: pay.SchemeUpTo, Network: k.Network.String(), Amount: 5, Asset: k.USDC.Address, PayTo: pay.Address{1}, Timeout: 60, Facilitator: pay.Address{2}.String()}
	allowed := func(what, want string, change func(o *Offer)) {
		t.Helper()
		changed := o
		change(&changed)
		if _, why := r.allows(&changed); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", what, why, want)
		}
	}
	allowed("as it is", "", func(*Offer) {})
	allowed("version 1", "of version 2 of the protocol alone", func(o *Offer) { o.Version, o.Network = 1, k.Network.Name })
	allowed("no facilitator", "extra.facilitatorAddress", func(o *Offer) { o.Facilitator = "" })
	allowed("a facilitator that is none", "extra.facilitatorAddress", func(o *Offer) { o.Facilitator = "0x12" })
	allowed("a validity below zero", "valid for -60 s", func(o *Offer) { o.Timeout = -60 })
}

// TestAKeyIsANumberOfTheCurve.
func TestAKeyIsANumberOfTheCurve(t *testing.T) {
	const order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	for text, want := range map[string]bool{
		strings.Repeat("0", 63) + "1": true, order[:63] + "0": true, " 0x" + strings.Repeat("1", 64) + "\n": true,
		order: false, order[:63] + "2": false, strings.Repeat("0", 64): false, strings.Repeat("f", 64): false, strings.Repeat("1", 62): false, strings.Repeat("1", 66): false, "": false,
	} {
		if _, err := ParseKey(text); (err == nil) != want || err != nil && !errors.Is(err, errKey) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
