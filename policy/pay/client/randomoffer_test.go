package client_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"bardo.money/gateway/policy/pay"
)

// odd are values of unexpected types.
var odd = []string{"null", "0", "-1", "1e3", `""`, `"x"`, "[]", "{}", "true", `"0x1"`, "99999999999999999999", `"\u0000\u001b[31m"`, `"` + strings.Repeat("long ", 2000) + `"`}

// offer is an offer with a few random errors.
func offer(r *rand.Rand, version int) string {
	quoted := func(s string) string { return `"` + s + `"` }
	network, amount := known.Network.String(), "amount"
	if version == 1 {
		network, amount = known.Network.Name, "maxAmountRequired"
	}
	scheme := oneOf(r, "exact", "exact", "upto")
	fields := [][2]string{
		{"scheme", quoted(scheme)},
		{"network", quoted(network)},
		{amount, quoted(fmt.Sprint(1 + r.IntN(2600)))},
		{"asset", quoted(known.USDC.Address.String())},
		{"payTo", quoted(payee.String())},
		{"maxTimeoutSeconds", fmt.Sprint(oneOf(r, 60, 600, 3600))},
		{"extra", fmt.Sprintf(`{"name":%q,"version":%q,"facilitatorAddress":%q}`, known.USDC.Name, known.USDC.Version, pay.Address{7}.String())},
	}
	for range max(r.IntN(6)-3, 0) {
		i := r.IntN(len(fields))
		fields[i][1] = other(r, fields[i][0], fields[i][1])
	}
	var parts []string
	for _, f := range fields {
		parts = append(parts, quoted(f[0])+":"+f[1])
		switch r.IntN(60) {
		case 0: // given twice
			parts = append(parts, quoted(f[0])+":"+other(r, f[0], f[1]))
		case 1: // in another case
			parts = append(parts, quoted(strings.ToUpper(f[0]))+":"+other(r, f[0], f[1]))
		case 2:
			parts = parts[:len(parts)-1]
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// other is another value of a member.
func other(r *rand.Rand, name, value string) string {
	if r.IntN(3) == 0 {
		return oneOf(r, odd...)
	}
	switch name {
	case "scheme":
		return oneOf(r, `"upto"`, `"exact "`, `"Exact"`, `"deferred"`)
	case "network":
		return oneOf(r, `"base"`, `"eip155:8453"`, `"base-sepolia"`, `"eip155:84532"`, `"eip155:084532"`, `"EIP155:84532"`)
	case "asset":
		return oneOf(r, `"0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"`, `"`+pay.Address{1}.String()+`"`, strings.ToUpper(value))
	case "payTo":
		return oneOf(r, `"`+pay.Address{1}.String()+`"`, strings.ToUpper(value), `"`+payee.String()[:41]+`b"`)
	case "maxTimeoutSeconds":
		return oneOf(r, "3601", "0", "-60", "9223372036854775807", `"60"`, "60.5")
	case "extra":
		return oneOf(r, `{"name":"USD Coin","version":"2"}`, `{"name":"USDC","version":"2","assetTransferMethod":"permit2"}`, `{"name":"USDC"}`, `{"name":"USDC","version":"2"}`)
	}
	return oneOf(r, `"1"`, `"2000"`, `"2001"`, `"1000000000000"`, `"1000000000001"`, `"18446744073709551617"`, `" 5"`, `"+5"`, `"5.0"`, "1500")
}

// challenge answers with a price.
func (r *rogue) challenge(w http.ResponseWriter) {
	random := r.random
	version := oneOf(random, 1, 2, 2)
	offers := make([]string, oneOf(random, 0, 1, 1, 1, 2, 3, 33))
	if random.IntN(4) > 0 {
		offers = offers[:min(len(offers), 3)]
	}
	for i := range offers {
		offers[i] = offer(random, version)
	}
	stated := version
	if random.IntN(20) == 0 {
		stated = oneOf(random, 0, 1, 2, 3)
	}
	text := fmt.Sprintf(`{"x402Version":%d,"error":"payment_required","resource":%s,"accepts":[%s]}`, stated, oneOf(random, `{"url":"http://x"}`, "null", `"x"`), strings.Join(offers, ","))
	body := "{}"
	if version == 1 {
		body = text
	} else {
		w.Header().Set("Payment-Required", oneOf(random, base64.StdEncoding.EncodeToString([]byte(text)), base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text))))
	}
	switch random.IntN(20) {
	case 0:
		body = strings.Repeat(" ", 100<<10) + body
	case 1:
		body = body[:len(body)-1]
	case 2:
		w.Header().Set("Payment-Required", oneOf(random, "%", "e30=", "bnVsbA==", strings.Repeat("QUFB", 9000)))
	case 3:
		w.Header().Set("Location", r.URL+"/elsewhere")
	case 4:
		w.Header().Set("Content-Length", "100000") // it breaks off
	}
	w.WriteHeader(http.StatusPaymentRequired)
	_, _ = io.WriteString(w, body)
}

// answer answers a request, with or without a payment, at random.
func (r *rogue) answer(w http.ResponseWriter) {
	if r.random.IntN(2) == 0 {
		name := oneOf(r.random, "Payment-Response", "X-Payment-Response")
		w.Header().Set(name, oneOf(r.random, "%", base64.StdEncoding.EncodeToString([]byte(oneOf(r.random, `{"success":true,"transaction":"0x`+strings.Repeat("ab", 32)+`"}`, `{"success":false,"errorReason":"settlement_failed: \u001b[2J"}`,
			`{"success":true,"transaction":"../../x","amount":"999999999999"}`, "null", "[]", `{"success":"yes"}`)))))
	}
	switch r.random.IntN(8) {
	case 0:
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
	case 1:
		r.challenge(w)
	case 2:
		w.Header().Set("Location", r.URL+"/elsewhere")
		w.WriteHeader(oneOf(r.random, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect))
	case 3:
		w.WriteHeader(oneOf(r.random, 400, 402, 403, 409, 429, 500, 503))
	default:
		_, _ = io.WriteString(w, "the answer")
	}
}
