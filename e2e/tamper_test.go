package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake/enclave"
)

// tamperer stands between a gateway and an enclave, and changes what comes back.
type tamperer struct {
	URL string

	to     string
	mu     sync.Mutex
	change func(*tampered) // of each answer of a model with status 200; nil: none
}

// tampered is an answer on its way, and what it was.
type tampered struct {
	header, trailer http.Header
	body            []byte
	cut             bool // the connection ends in the middle of it
	piece           int  // bytes of a piece; 0: in one

	was *tampered
}

func startTamperer(t *testing.T) *tamperer {
	t.Helper()
	b := &tamperer{}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	b.URL = s.URL
	return b
}

func (b *tamperer) set(change func(*tampered)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change = change
}

// ServeHTTP passes a request on, and its answer back as it was changed.
func (b *tamperer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, b.to+r.URL.Path, r.Body)
	if err != nil {
		return
	}
	req.Header, req.ContentLength = r.Header.Clone(), r.ContentLength
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	a := &tampered{header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return
	}
	a.trailer = resp.Trailer.Clone()
	if a.trailer == nil {
		a.trailer = http.Header{}
	}
	b.mu.Lock()
	change := b.change
	b.mu.Unlock()
	if change != nil && resp.StatusCode == http.StatusOK && r.Method == http.MethodPost {
		was := *a
		was.header, was.trailer, was.body = a.header.Clone(), a.trailer.Clone(), bytes.Clone(a.body)
		a.was = &was
		change(a)
	}
	a.write(w, resp.StatusCode)
}

func (a *tampered) write(w http.ResponseWriter, status int) {
	h := w.Header()
	for name, values := range a.header {
		if name != "Content-Length" && name != "Trailer" {
			h[name] = values
		}
	}
	w.WriteHeader(status)
	out := http.NewResponseController(w)
	rest := a.body
	if a.cut {
		rest = rest[:len(rest)/2]
	}
	for _ = out.Flush(); len(rest) > 0; _ = out.Flush() {
		n := len(rest)
		if a.piece > 0 {
			n = min(n, a.piece)
		}
		_, _ = w.Write(rest[:n])
		rest = rest[n:]
	}
	if a.cut {
		panic(http.ErrAbortHandler) // so net/http breaks an answer off
	}
	for name, values := range a.trailer {
		h[http.TrailerPrefix+name] = values
	}
}

const receiptOf = "X-Venice-Attestation-Receipt"

// receipts are all that the answer has, in the order of their coming.
func (a *tampered) receipts() []string {
	return slices.Concat(a.header.Values(receiptOf), a.trailer.Values(receiptOf))
}

// place is where the answer has its receipt: head or trailers.
func (a *tampered) place() http.Header {
	if len(a.header.Values(receiptOf)) > 0 {
		return a.header
	}
	return a.trailer
}

// meant is what a receipt says; "" for one that says nothing, or something twice.
func meant(value string) string {
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
	var o map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &o) != nil || strings.Count(string(text), `":`) != len(o) {
		return ""
	}
	b, _ := json.Marshal(o) // in the order of its members
	return string(b)
}

// isSame reports whether a reader who wants the same bytes, the same receipt and the same promise has them.
func (a *tampered) isSame() bool {
	if a.cut || !bytes.Equal(a.body, a.was.body) {
		return false
	}
	for _, v := range a.header.Values("Content-Encoding") {
		if v != "" && v != "identity" {
			return false
		}
	}
	sent := a.receipts()
	for _, v := range sent {
		if v != sent[0] {
			return false
		}
	}
	return len(sent) > 0 && meant(sent[0]) != "" && meant(sent[0]) == meant(a.was.receipts()[0]) && a.promised()
}

// promised reports whether the head says that nothing is retained.
func (a *tampered) promised() bool {
	all := func(name string, good ...string) bool {
		values := a.header.Values(name)
		return len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(good, strings.ToLower(strings.TrimSpace(v))) })
	}
	return all("X-Venice-Privacy-Level", "private", "tee", "e2e") && all("X-Venice-Retention-Policy", "none")
}

// tamper changes an answer at random, and says what it did.
func tamper(r *rand.Rand, a *tampered, earlier string) string {
	a.piece = pick(r, 0, 0, 1, 7, 100)
	switch r.IntN(9) {
	case 0:
		return "nothing"
	case 1, 2:
		return a.tamperBody(r)
	case 3:
		return a.tamperPromise(r)
	case 4:
		place := a.place()
		place.Set(receiptOf, mangled(r, place.Get(receiptOf)))
		return "the receipt's base64"
	case 5, 6:
		place := a.place()
		text, _ := base64.StdEncoding.DecodeString(place.Get(receiptOf)) // the enclave wrote it
		place.Set(receiptOf, base64.StdEncoding.EncodeToString([]byte(rewritten(r, string(text)))))
		return "the receipt's text"
	case 7:
		return a.tamperNumber(r, earlier)
	default:
		return a.tamperSigned(r)
	}
}

func (a *tampered) tamperBody(r *rand.Rand) string {
	at := r.IntN(len(a.body))
	switch r.IntN(8) {
	case 0:
		a.body[at] ^= 1 << r.IntN(8)
		return "a bit of the body"
	case 1:
		a.body = a.body[:at]
		return "a shorter body"
	case 2:
		a.cut = true
		return "a body that is cut"
	case 3:
		parts := bytes.SplitAfter(a.body, []byte("\n\n"))
		i, j := r.IntN(len(parts)), r.IntN(len(parts))
		parts[i], parts[j] = parts[j], parts[i]
		a.body = bytes.Join(parts, nil)
		return "events in another order"
	case 4:
		a.body = append(a.body, pick(r, "\n", " ", "data: {}\n\n", "{}", "\x00", ": c\n\n")...)
		return "more behind the body"
	case 5:
		a.body = slices.Concat(a.body[:at], a.body[at/2:at], a.body[at:])
		return "a piece twice"
	case 6:
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(a.body) // into memory
		_ = z.Close()
		a.body = b.Bytes()
		a.header.Set("Content-Encoding", pick(r, "gzip", "GZIP", "x-gzip"))
		return "a compressed body"
	default:
		a.header["Content-Encoding"] = pick(r, []string{"gzip"}, []string{"identity"}, []string{"identity, gzip"}, []string{"identity", "br"}, []string{"Identity"}, []string{"br"})
		return "the name of an encoding"
	}
}

func (a *tampered) tamperPromise(r *rand.Rand) string {
	name, good := pick(r, "X-Venice-Privacy-Level", "X-Venice-Retention-Policy"), "none"
	if name == "X-Venice-Privacy-Level" {
		good = "private"
	}
	switch r.IntN(5) {
	case 0:
		a.header.Del(name)
	case 1:
		a.header.Del(name)
		a.trailer.Set(name, good)
	case 2:
		a.header.Add(name, pick(r, "none", "30d", "", "private", "public", "e2e"))
	case 3:
		a.header[name] = pick(r, []string{good + ", " + good}, []string{"30d", good}, []string{""}, []string{"\u0430nonymized"}, []string{good + "x"}, []string{`"` + good + `"`}, []string{good + ";q=1"})
	default:
		a.header.Set(name, pick(r, strings.ToUpper(good), " "+good, good+"\t", "tee"))
	}
	return "the promise"
}

// tamperNumber changes how many receipts there are, and where.
func (a *tampered) tamperNumber(r *rand.Rand, earlier string) string {
	value, was := a.place().Get(receiptOf), a.place()
	other := pick(r, value, value, "", earlier, mangled(r, value))
	switch r.IntN(6) {
	case 0:
		was.Del(receiptOf)
		return "no receipt"
	case 1:
		was.Set(receiptOf, earlier)
		return "an earlier receipt"
	case 2:
		a.header.Add(receiptOf, other)
		return "a second receipt in the head"
	case 3:
		a.trailer.Add(receiptOf, other)
		return "a second receipt in the trailers"
	case 4:
		was.Del(receiptOf)
		pick(r, a.header, a.trailer).Set(receiptOf, value)
		return "the receipt elsewhere"
	default:
		was.Set(receiptOf, value+pick(r, ",", ", ", ";")+other)
		return "two receipts in one line"
	}
}

// tamperSigned has a stranger sign what the enclave did not say, or the enclave's signature stand for it.
func (a *tampered) tamperSigned(r *rand.Rand) string {
	place := a.place()
	text, _ := base64.StdEncoding.DecodeString(place.Get(receiptOf)) // the enclave wrote it
	var o map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&o)
	signature := o["signature"]
	delete(o, "signature")
	key := pick(r, "nonce", "timestamp", "model_id", "response_hash", "debug_mode", "enclave_measurement")
	o[key] = map[string]any{
		"nonce": strings.Repeat("0", 64), "timestamp": 1, "model_id": "sealed", "response_hash": strings.Repeat("0", 64), "debug_mode": true, "enclave_measurement": strings.Repeat("0", 96),
	}[key]
	signed, _ := json.Marshal(o) // in the canonical form
	o["signature"] = signature
	if r.IntN(2) == 0 {
		o["signature"] = base64.StdEncoding.EncodeToString(ed25519.Sign(enclave.New("a stranger").Key, signed))
	}
	whole, _ := json.Marshal(o) // of what was JSON
	place.Set(receiptOf, base64.StdEncoding.EncodeToString(whole))
	return "another " + key
}

// mangled is a text in base64 with a fault, or written in another way.
func mangled(r *rand.Rand, v string) string {
	if v == "" {
		return "x"
	}
	at := r.IntN(len(v))
	switch r.IntN(9) {
	case 0:
		return v[:at] + pick(r, "A", "z", "/", "+") + v[at+1:]
	case 1:
		return v[:at]
	case 2:
		return strings.TrimRight(v, "=")
	case 3:
		return v[:at] + pick(r, " ", "\t", "=", "-", "%3D") + v[at:]
	case 4:
		return strings.NewReplacer("+", "-", "/", "_").Replace(v) + pick(r, "", "=")
	case 5:
		return v + pick(r, "=", "AAAA", v, "A")
	case 6:
		return strings.ToLower(v)
	case 7:
		return base64.StdEncoding.EncodeToString([]byte(v))
	default:
		return v + strings.Repeat("A", 9<<10)
	}
}

// rewritten is the text of a receipt with a fault, or written in another way.
func rewritten(r *rand.Rand, s string) string {
	at := r.IntN(len(s))
	key := pick(r, "nonce", "timestamp", "model_id", "response_hash", "debug_mode", "enclave_measurement", "signature")
	member := between(s, `"`+key+`":`, pick(r, ",", "}"))
	switch r.IntN(12) {
	case 0:
		return s[:at] + string([]byte{s[at] ^ 1<<r.IntN(8)}) + s[at+1:]
	case 1:
		return s[:at] + s[at+1:]
	case 2:
		return strings.NewReplacer(",", ", \n", ":", ": ").Replace(s)
	case 3:
		return strings.Replace(s, "{", `{"`+pick(r, key, strings.ToUpper(key), "extra")+`":`+pick(r, "null", "false", `"x"`, "1", member+" ")+",", 1)
	case 4:
		return strings.Replace(s, `"`+key+`"`, pick(r, `"`+strings.ToUpper(key)+`"`, fmt.Sprintf(`"\u%04x%s"`, key[0], key[1:]), `"`+key+` "`), 1)
	case 5:
		return strings.Replace(s, member, pick(r, "null", "[]", "{}", `""`, "["+member+"]", member+member), 1)
	case 6:
		return s + pick(r, " ", "\n", "{}", "null", "\x00", ",")
	case 7:
		return "\ufeff" + s
	case 8:
		return strings.Replace(s, `"timestamp":1`, `"timestamp":`+pick(r, "01", "+1", "1.0e0", "-1", "1_"), 1)
	case 9:
		return strings.Replace(s, "false", pick(r, "False", "0", `"false"`, "true", "null"), 1)
	case 10:
		return "[" + s + "]"
	default:
		return strings.ToUpper(s)
	}
}
