package payclient

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
	"bardo.money/gateway/policy/pay/paytest"
)

// vendor is a server that wants anything for anything, takes what it gets, and answers anything; and the chain, which it tells the truth of.
type vendor struct {
	*httptest.Server
	t    *testing.T
	book *outgoing.Book // that the command writes

	mu      sync.Mutex
	random  *rand.Rand
	now     allowed // what the process that runs allows
	bills   map[pay.Word]*bill
	answers map[string]*answer // the last answer to each exchange
	paths   map[string]string  // of the exchanges that came
}

// allowed are the flags of a process.
type allowed struct {
	process int
	wallet  int
	payees  []string
	most    policy.Micro
	upTo    bool
}

// bill is an authorization that the vendor was sent.
type bill struct {
	pay.Authorization

	request string
	process string // that sent it first
	taken   bool
	served  bool // answered with success
}

// answer is one of the vendor's.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	trailer string
	paid    bool
	cut     bool // it breaks off
	bad     bool // it is none
}

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// The wallets, the payees and the bounds of the test.
var (
	walletKeys = []string{"ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80", "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"}
	payees     = []string{"0x00000000000000000000000000000000000000aa", "0x00000000000000000000000000000000000000ab"}
	token      = pay.Token{Address: pay.Address{0xcc, 19: 1}, Name: "USD Coin", Version: "2"}
	network    = func() pay.Network { k, _ := pay.FindNetwork("base-sepolia"); return k.Network }()
)

const (
	mostADay = policy.Micro(60_000)
	ahead    = 3 * time.Minute // the chain's newest block, so that what has ended is over at once
	marker   = "payment_proxy" // in the proxy's own errors
)

func startVendor(t *testing.T, random *rand.Rand, book *outgoing.Book) *vendor {
	t.Helper()
	v := &vendor{t: t, book: book, random: random, bills: map[pay.Word]*bill{}, answers: map[string]*answer{}, paths: map[string]string{}}
	v.Server = httptest.NewServer(v)
	t.Cleanup(v.Close)
	return v
}

// ServeHTTP implements http.Handler.
func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.URL.Path == "/node" {
		v.chain(w, body)
		return
	}
	v.inspect(r, body)
	exchange := r.Header.Get("X-Exchange")
	v.paths[exchange] = r.RequestURI
	text := r.Header.Get("Payment-Signature") + r.Header.Get("X-Payment")
	if text == "" {
		if v.random.IntN(5) == 0 {
			v.answer(w, r, nil)
			return
		}
		v.demand(w, exchange)
		return
	}
	if b := v.take(text, r.Header.Get("X-Process")); b != nil {
		v.answer(w, r, b)
	}
}

// inspect makes sure that a request has what it is to have, and no secrets.
func (v *vendor) inspect(r *http.Request, body []byte) {
	if !strings.HasPrefix(r.RequestURI, "/base/") {
		v.t.Errorf("a request for %q", r.RequestURI)
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "X-Goog-Api-Key"} {
		if r.Header.Get(name) != "" {
			v.t.Errorf("the server gets %s", name)
		}
	}
	if want := r.Header.Get("X-Body"); want != fmt.Sprint(len(body)) {
		v.t.Errorf("a body of %d bytes, and %s were sent", len(body), want)
	}
	v.noSecret("a request", fmt.Sprint(r.Header)+string(body))
}

// noSecret makes sure that a text has no wallet's key.
func (v *vendor) noSecret(what, text string) {
	for _, key := range walletKeys {
		if strings.Contains(strings.ToLower(text), key[:16]) {
			v.t.Errorf("%s has a wallet's key", what)
		}
	}
}

// demand answers with a price, right ones among others.
func (v *vendor) demand(w http.ResponseWriter, exchange string) {
	v.answers[exchange] = &answer{status: http.StatusPaymentRequired}
	amount, payTo, asset, timeout, scheme := 100+v.random.IntN(2200), v.now.payees[0], token.Address.String(), int64(oneOf(v.random, 1, 1, 2, 60, 3600)), "exact"
	name, version := token.Name, v.random.IntN(2)+1
	net := map[int]string{1: "base-sepolia", 2: "eip155:84532"}[version]
	switch v.random.IntN(20) {
	case 0:
		payTo = oneOf(v.random, payees[1], "0x00000000000000000000000000000000000000bb", "", "0x"+strings.Repeat("0", 40), strings.Repeat("a", 5000))
	case 1:
		asset = oneOf(v.random, payees[0], "", token.Address.String()+"00")
	case 2:
		net = oneOf(v.random, "eip155:8453", "base", "", "eip155:084532", "solana")
	case 3:
		amount = oneOf(v.random, 0, -1, 1_000_000_000_000_000, 4000)
	case 4:
		timeout = oneOf[int64](v.random, 0, -1, 3601, 1<<62)
	case 5, 6, 7:
		scheme = oneOf(v.random, "upto", "", "EXACT", "deferred")
	case 8:
		name = oneOf(v.random, "USDC", "", strings.Repeat("x", 3000))
	case 9:
		v.nonsense(w, exchange)
		return
	}
	offer := map[string]any{
		"scheme": scheme, "network": net, "amount": fmt.Sprint(amount), "maxAmountRequired": fmt.Sprint(amount), "asset": asset, "payTo": payTo, "maxTimeoutSeconds": timeout, "resource": "http://x",
		"description": oneOf(v.random, "", strings.Repeat("d", 9000)), "extra": map[string]any{"name": name, "version": token.Version, "facilitatorAddress": payees[0]},
	}
	all := []any{offer}
	if v.random.IntN(4) == 0 {
		all = append([]any{map[string]any{"scheme": "exact", "amount": 7}, "x"}, all...)
	}
	text, err := json.Marshal(map[string]any{"x402Version": version, "error": "x", "resource": map[string]any{"url": "http://x"}, "accepts": all})
	if err != nil {
		v.t.Error(err)
	}
	if version == 2 {
		w.Header().Set("Payment-Required", base64.StdEncoding.EncodeToString(text))
	}
	w.WriteHeader(http.StatusPaymentRequired)
	if version == 1 {
		_, _ = w.Write(text)
	}
}

// nonsense is a price that cannot be read.
func (v *vendor) nonsense(w http.ResponseWriter, exchange string) {
	switch v.random.IntN(5) {
	case 0:
		w.Header().Set("Payment-Required", oneOf(v.random, "%", "e30=", "bnVsbA==", strings.Repeat("QUFB", 9000)))
	case 1:
		defer func() {
			_, _ = io.WriteString(w, oneOf(v.random, "{}", "<html>", strings.Repeat("x", 3<<20), `{"x402Version":1,"accepts":[`+strings.Repeat("{},", 99)+`{}]}`, strings.Repeat("[", 20_000)))
		}()
	case 2:
		w.Header().Set("Payment-Required", strings.Repeat("Q", 11<<20)) // more than is read of headers
	case 3:
		v.answers[exchange].bad = true
		raw(w, "HTTP/1.1 402 Payment Required\r\nContent-Length: 100\r\n\r\nhalf")
		return
	}
	w.WriteHeader(http.StatusPaymentRequired)
}

// take reads a payment, and compares it with what is allowed. nil: it is none.
func (v *vendor) take(text, process string) *bill {
	a, err := paytest.Parse(text, token, network)
	if err != nil {
		v.t.Errorf("a payment that cannot be read: %v", err)
		return nil
	}
	all, err := v.book.Recent(v.t.Context(), 100_000)
	if err != nil {
		v.t.Error(err)
		return nil
	}
	i := slices.IndexFunc(all, func(o outgoing.Authorization) bool { return o.Nonce == a.Nonce })
	if i < 0 || all[i].Value != a.Value || all[i].To != a.To {
		v.t.Errorf("sent, and not in the book: %+v", a)
		return nil
	}
	if b := v.bills[a.Nonce]; b != nil {
		if b.Authorization != a {
			v.t.Errorf("a nonce for two: %+v, %+v", b, a)
		}
		return b
	}
	now := uint64(time.Now().Unix())
	switch {
	case !slices.Contains(v.now.payees, a.To.String()) || a.From != addressOf(v.t, v.now.wallet):
		v.t.Errorf("%s is paid by %s, and process %d allows %v", a.To, a.From, v.now.process, v.now.payees)
	case a.Value <= 0 || a.Value > v.now.most || a.UpTo && !v.now.upTo:
		v.t.Errorf("%s is paid, and at most %s may be; upto %v", a.Value, v.now.most, a.UpTo)
	case a.ValidAfter != 0 || a.ValidBefore > now+3600 || a.ValidBefore+60 < now:
		v.t.Errorf("valid until %d, and it is %d", a.ValidBefore, now)
	}
	spent := a.Value
	for nonce, b := range v.bills {
		if b.From == a.From && !slices.ContainsFunc(all, func(o outgoing.Authorization) bool { return o.Nonce == nonce && o.State == outgoing.Unused }) {
			spent += b.Value
		}
	}
	if spent > mostADay {
		v.t.Errorf("%s are spent in a day, and at most %s may be", spent, mostADay)
	}
	if slices.ContainsFunc(all, func(o outgoing.Authorization) bool {
		return o.Request == all[i].Request && o.From == a.From && o.State == outgoing.Open && o.Nonce != a.Nonce
	}) {
		v.t.Errorf("two payments are in doubt for one request: %+v", a)
	}
	b := &bill{Authorization: a, request: all[i].Request, process: process, taken: v.random.IntN(2) == 0 && now < a.ValidBefore}
	v.bills[a.Nonce] = b
	return b
}

func addressOf(t *testing.T, wallet int) pay.Address {
	t.Helper()
	k, err := client.ParseKey(walletKeys[wallet])
	if err != nil {
		t.Fatal(err)
	}
	return k.Address()
}

// chain answers as the node of the chain.
func (v *vendor) chain(w http.ResponseWriter, body []byte) {
	if v.random.IntN(10) == 0 {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	n := paytest.Node{Network: network, Head: time.Now().Add(ahead), Used: v.used}
	response, err := n.Answer(body)
	if err != nil {
		v.t.Error(err)
		return
	}
	_, _ = w.Write(response)
}

// used yields the authorizations that are used on the chain.
func (v *vendor) used(yield func(*pay.Authorization) bool) {
	for _, b := range v.bills {
		if b.taken && !yield(&b.Authorization) {
			return
		}
	}
}

// raw answers with bytes, and closes the connection.
func raw(w http.ResponseWriter, text string) {
	h, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	if c, _, err := h.Hijack(); err == nil {
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
}

// answer answers a request, b with its payment, in any way.
func (v *vendor) answer(w http.ResponseWriter, r *http.Request, b *bill) {
	a := &answer{paid: b != nil, header: http.Header{}}
	v.answers[r.Header.Get("X-Exchange")] = a
	switch v.random.IntN(12) {
	case 0:
		a.bad = true
		raw(w, oneOf(v.random, "", "HTTP/1.1 "+"000 nothing\r\n\r\n", "HTTP/1.1 099 x\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello", "HTTP/1.1 1000 x\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello", "rubbish\r\n\r\n", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 60), "HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("x", 11<<20)+"\r\n\r\n"))
		return
	case 1:
		a.cut, a.status = true, http.StatusOK
		a.body = []byte(strings.Repeat("b", 1+v.random.IntN(100_000)))
		v.serve(b, a)
		raw(w, oneOf(v.random, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(a.body)+1, a.body), fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(a.body), a.body)))
		return
	}
	a.status = oneOf(v.random, 200, 200, 200, 200, 201, 204, 206, 299, 301, 302, 307, 308, 400, 401, 402, 403, 404, 409, 413, 418, 429, 500, 502, 503, 599, 999)
	if a.status == http.StatusPaymentRequired && b == nil {
		a.status = http.StatusOK // one that is no price is demand's
	}
	v.dress(a)
	v.serve(b, a)
	v.write(w, a, strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"))
}

// serve notes that a payment's request is answered with success.
func (v *vendor) serve(b *bill, a *answer) {
	if b != nil && a.status/100 == 2 {
		b.served = true
	}
}

// dress gives an answer headers and a body.
func (v *vendor) dress(a *answer) {
	a.header.Set("Content-Type", oneOf(v.random, "application/json", "text/event-stream", "text/plain; charset=latin-1", "x"))
	for i := range v.random.IntN(3) * v.random.IntN(60) {
		a.header.Add(oneOf(v.random, "Set-Cookie", "X-Odd", fmt.Sprint("X-Odd-", i)), oneOf(v.random, "", "a=b; Path=/", "\xe9\xff", strings.Repeat("v", 3000), `"`))
	}
	if a.status/100 == 3 {
		a.header.Set("Location", oneOf(v.random, "/elsewhere", "http://127.0.0.1:1/", "//x", "%"))
		a.bad = a.header.Get("Location") == "%"
	}
	if v.random.IntN(3) > 0 {
		a.header.Set(oneOf(v.random, "Payment-Response", "X-Payment-Response"), oneOf(v.random, "%", "e30=", strings.Repeat("QUFB", 15_000), base64.StdEncoding.EncodeToString([]byte(`{"success":true,"transaction":"0x`+strings.Repeat("ab", 32)+`"}`)),
			base64.StdEncoding.EncodeToString([]byte(`{"success":false,"errorReason":"\u001b[2J\nno`+strings.Repeat("z", 300)+`"}`)), base64.StdEncoding.EncodeToString([]byte(`{"success":true,"transaction":"\u001b]0;x\u0007","amount":"\u001b[1m"}`))))
	}
	if a.status == http.StatusNoContent {
		return
	}
	a.body = oneOf(v.random, nil, []byte("{}"), []byte("data: {\"x\":1}\n\ndata: [DONE]\n\n"), bytes.Repeat([]byte("0123456789"), v.random.IntN(100_000)))
	if v.random.IntN(4) == 0 {
		a.trailer = "end"
	}
}

// write sends an answer, in one or some pieces, packed or not.
func (v *vendor) write(w http.ResponseWriter, a *answer, packs bool) {
	maps.Copy(w.Header(), a.header)
	body := a.body
	if packs && a.status != http.StatusNoContent && v.random.IntN(6) == 0 { // the proxy's client unpacks what it has asked for
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(body)
		_ = z.Close()
		body = packed.Bytes()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(a.status)
	out := http.NewResponseController(w)
	for len(body) > 0 {
		n := min(len(body), 1+v.random.IntN(50_000))
		if _, err := w.Write(body[:n]); err != nil {
			return
		}
		if body = body[n:]; v.random.IntN(2) == 0 {
			_ = out.Flush()
		}
	}
	if a.trailer != "" {
		_ = out.Flush() // so that it is in chunks
		w.Header().Set(http.TrailerPrefix+"X-Trailer", a.trailer)
	}
}
