package pay

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"bardo.money/gateway/e2e/fake"
)

// deal is a random request with a random payment.
type deal struct {
	number    int
	dialect   string
	stream    bool
	most      int    // tokens of the answer
	other     string // what the payment is sent with instead of the request that was quoted; "": the same
	key       string // of the two keys of the gateway: beside the payment, alone, or ""
	purse     int
	upTo      bool
	version   int
	named     bool // the price is asked for with the wallet's name
	changes   []change
	form      form
	way       string // how it is sent
	behaviour fake.Behaviour
	seed      uint64 // of what is chosen when the payment is known
}

// String is enough of it to repeat it by hand.
func (d *deal) String() string {
	names := make([]string, len(d.changes))
	for i := range d.changes {
		names[i] = d.changes[i].name
	}
	return fmt.Sprintf("deal %d: %s stream=%v most=%d other=%q key=%q purse=%d upTo=%v version=%d named=%v changes=%q form=%q way=%q behaviour=%+v",
		d.number, d.dialect, d.stream, d.most, d.other, d.key, d.purse, d.upTo, d.version, d.named, names, d.form.name, d.way, d.behaviour)
}

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// dialects are the paths that can be paid for.
var dialects = []string{"chat", "chat", "messages", "responses", "completions", "gemini"}

// ways are how a payment is sent: once, again, with another request, at the same time to both gateways, or by a client that leaves.
var ways = []string{"once", "once", "once", "again", "again elsewhere", "with another body", "parallel", "parallel with other bodies", "leave", "leave late"}

func newDeal(r *rand.Rand, number int) *deal {
	d := &deal{
		number: number, dialect: oneOf(r, dialects...), stream: r.IntN(2) == 0, most: oneOf(r, 1, 50, 200, 1000), purse: oneOf(r, 0, 0, 0, 1, 1, 2, 3, 4, 5), upTo: r.IntN(3) == 0,
		version: oneOf(r, 2, 2, 1), named: r.IntN(3) == 0, form: forms[0], way: oneOf(r, ways...), behaviour: randomAnswer(r), seed: r.Uint64(),
	}
	if d.upTo {
		d.version = 2
	}
	switch r.IntN(6) {
	case 0, 1:
		d.changes = append(d.changes, oneOf(r, changes...))
	case 2:
		d.changes = append(d.changes, oneOf(r, changes...), oneOf(r, changes...))
	case 3:
		d.form = oneOf(r, forms...)
	case 4:
		d.other = oneOf(r, "longer", "another model", "header", "path")
	}
	d.key = oneOf(r, "", "", "", "", "beside", "alone")
	return d
}

// honest reports whether nothing is wrong with the deal, so that it has to be served. A credit that lowers a price may be spent by another deal.
func (d *deal) honest() bool {
	b := d.behaviour
	healthy := b.Status == 0 && b.Raw == nil && b.Break.Kind == fake.Healthy && b.Usage == nil
	return len(d.changes) == 0 && d.form.name == "" && d.other == "" && d.purse < 2 && healthy && d.key == "" && !d.named
}

// wrong reports whether the payment must not be taken, whatever else holds.
func (d *deal) wrong() bool {
	for i := range d.changes {
		if c := &d.changes[i]; c.wrong && (c.of == 0 || c.of == d.version) {
			return true
		}
	}
	return d.form.wrong
}

// randomAnswer is one of the ways in which the provider answers or fails.
func randomAnswer(r *rand.Rand) fake.Behaviour {
	b := fake.Behaviour{Text: oneOf(r, "", "short", strings.Repeat("a longer answer, word by word. ", 1+r.IntN(60)))}
	switch r.IntN(12) {
	case 0:
		b.Status = oneOf(r, 400, 401, 402, 403, 404, 409, 429, 500, 503)
	case 1:
		b.Break = fake.Break{Kind: oneOf(r, fake.Reset, fake.Close, fake.ErrorEvent, fake.Stop), At: oneOf(r, fake.BeforeHeaders, fake.AfterHeaders, fake.AfterTokens), Tokens: r.IntN(4)}
	case 2:
		b.Usage = &fake.Usage{Input: oneOf(r, 0, 1, 1_000_000), Output: oneOf(r, 0, 1, 1_000_000), Cached: oneOf(r, 0, 1_000_000), Missing: r.IntN(3) == 0}
	case 3:
		b.Raw = &fake.Raw{Status: 200, Header: []string{"content-type: " + oneOf(r, "application/json", "text/event-stream")}, Body: oneOf(r, "", "{}", "data: [DONE]\n\n", `{"choices":[]}`, "plain")}
	case 4:
		b.FirstToken = time.Duration(r.IntN(300)) * time.Millisecond
	}
	return b
}

// change is something wrong, or odd, in a payment.
type change struct {
	name  string
	wrong bool // no payment with it is taken
	of    int  // only in this version; 0: in both
	early func(r *rand.Rand, p *payment)
	late  func(r *rand.Rand, p *payment) // after it was signed
}

func anyAddress(r *rand.Rand) (a common.Address) {
	for i := range a {
		a[i] = byte(r.Uint32())
	}
	return a
}

// amounts that are not the one that was asked for. More is taken, and less with a credit; a few millionths are below the least of every quote.
var changes = []change{
	{name: "next to nothing", wrong: true, early: func(r *rand.Rand, p *payment) { p.Value = int64(r.IntN(1000)); p.name() }},
	{name: "a little less", early: func(r *rand.Rand, p *payment) { p.Value -= min(p.Value, 1+int64(r.IntN(2000))); p.name() }},
	{name: "half", early: func(_ *rand.Rand, p *payment) { p.Value /= 2; p.name() }},
	{name: "more", early: func(r *rand.Rand, p *payment) { p.Value += int64(r.IntN(20_000)); p.name() }},
	{name: "more than there is", wrong: true, early: func(r *rand.Rand, p *payment) { p.Value = oneOf(r, int64(2e12), 1e12, 1<<62); p.name() }},
	{name: "less than nothing", wrong: true, early: func(_ *rand.Rand, p *payment) { p.Value = -p.Value; p.name() }},
	{name: "the amount that was signed", wrong: true, late: func(r *rand.Rand, p *payment) { p.Value += 1 + int64(r.IntN(99)); p.name() }},
	{name: "the amount that is named", wrong: true, of: 2, late: func(r *rand.Rand, p *payment) { p.Accepted.Amount = oneOf(r, "1", "", "0", "01", "1e9", " 1", "0x1") }},
	{name: "to somebody else", wrong: true, early: func(r *rand.Rand, p *payment) { p.To = anyAddress(r) }},
	{name: "to the payer", wrong: true, early: func(_ *rand.Rand, p *payment) { p.To = p.From }},
	{name: "from somebody else", wrong: true, early: func(r *rand.Rand, p *payment) { p.From = anyAddress(r) }},
	{name: "from another purse", wrong: true, late: func(_ *rand.Rand, p *payment) { p.From = addressOf(settlerKey) }},
	{name: "signed by another purse", wrong: true, early: func(_ *rand.Rand, p *payment) { p.Key = settlerKey }},
	{name: "another chain", wrong: true, early: func(r *rand.Rand, p *payment) { p.Chain = oneOf(r, int64(1), 8453, 84531, 0) }},
	{name: "another token", wrong: true, early: func(r *rand.Rand, p *payment) { p.Contract = anyAddress(r) }},
	{name: "another token that is named", wrong: true, of: 2, late: func(r *rand.Rand, p *payment) { p.Accepted.Asset = anyAddress(r).Hex() }},
	{name: "another network that is named", wrong: true, of: 2, late: func(r *rand.Rand, p *payment) {
		p.Accepted.Network = oneOf(r, "eip155:8453", "base-sepolia", "", "eip155:84532 ", "EIP155:84532", "eip155:084532")
	}},
	{name: "another payee that is named", wrong: true, of: 2, late: func(r *rand.Rand, p *payment) { p.Accepted.PayTo = anyAddress(r).Hex() }},
	{name: "another scheme", wrong: true, of: 2, late: func(r *rand.Rand, p *payment) { p.Accepted.Scheme = oneOf(r, "deferred", "", "Exact", "exact ") }},
	{name: "the other scheme", wrong: true, of: 2, late: func(_ *rand.Rand, p *payment) {
		p.Accepted.Scheme = map[string]string{"exact": "upto", "upto": "exact"}[p.Accepted.Scheme]
	}},
	{name: "another domain", wrong: true, of: 2, late: func(r *rand.Rand, p *payment) { p.Accepted.Extra.Name = oneOf(r, "", "USDC", "usd coin") }},
	{name: "another time that is named", wrong: true, of: 2, late: func(r *rand.Rand, p *payment) { p.Accepted.MaxTimeoutSeconds = oneOf[int64](r, 0, -1, 1<<62) }},
	{name: "not valid yet", wrong: true, early: func(r *rand.Rand, p *payment) { p.ValidAfter = time.Now().Unix() + 3 + int64(r.IntN(1e6)) }},
	{name: "not valid any more", wrong: true, early: func(r *rand.Rand, p *payment) { p.ValidBefore = time.Now().Unix() + int64(r.IntN(120)) - 60 }},
	{name: "valid for ever", early: func(_ *rand.Rand, p *payment) { p.ValidBefore = 1 << 40 }},
	{name: "valid for longer than times are", wrong: true, early: func(r *rand.Rand, p *payment) { p.ValidBefore = oneOf[int64](r, 1<<62, 1<<41) }},
	{name: "a longer time than was signed", wrong: true, late: func(_ *rand.Rand, p *payment) { p.ValidBefore++ }},
	{name: "another nonce than was signed", wrong: true, late: func(r *rand.Rand, p *payment) { p.Nonce[r.IntN(32)] ^= 1 << r.IntN(8) }},
	{name: "the twin of the signature", wrong: true, late: func(_ *rand.Rand, p *payment) { p.twin() }},
	{name: "v as a parity", late: func(_ *rand.Rand, p *payment) { p.Signature[64] -= 27 }},
	{name: "another v", wrong: true, late: func(r *rand.Rand, p *payment) { p.Signature[64] = oneOf[byte](r, p.Signature[64]^7, 2, 29, 35, 255) }},
	{name: "a changed signature", wrong: true, late: func(r *rand.Rand, p *payment) { p.Signature[r.IntN(64)] ^= 1 << r.IntN(8) }},
	{name: "a longer signature", wrong: true, late: func(r *rand.Rand, p *payment) { p.Signature = append(p.Signature, make([]byte, 1+r.IntN(100))...) }},
	{name: "a signature of nothing", wrong: true, late: func(r *rand.Rand, p *payment) { p.Signature = make([]byte, oneOf(r, 0, 1, 64, 65, 66, 5000)) }},
	{name: "no quote", of: 2, late: func(_ *rand.Rand, p *payment) { p.Accepted.Extra.Quote = "" }},
	{name: "a forged quote", of: 2, late: func(r *rand.Rand, p *payment) {
		if q := []byte(p.Accepted.Extra.Quote); len(q) > 0 {
			q[r.IntN(len(q))] = oneOf[byte](r, 'A', '_', 'z')
			p.Accepted.Extra.Quote = string(q)
		}
	}},
	{name: "another facilitator", wrong: true, early: func(r *rand.Rand, p *payment) {
		if p.Facilitator = anyAddress(r); !p.UpTo {
			p.To = p.Facilitator // there is none
		}
	}},
	{name: "another spender", wrong: true, early: func(r *rand.Rand, p *payment) {
		if p.Spender = anyAddress(r); !p.UpTo {
			p.To = p.Spender
		}
	}},
}

// name has the payment name the amount that it signs.
func (p *payment) name() { p.Accepted.Amount = fmt.Sprint(p.Value) }

// form is how a payment is written.
type form struct {
	name  string
	wrong bool // nothing that is written so is taken
	write func(r *rand.Rand, header, value string, text []byte) []string
}

func asHeader(name string, value string) []string { return []string{name + ": " + value} }

// forms of a payment in a request. Some can be read, and none must mean something else than what was signed.
var forms = []form{
	{name: "", write: func(_ *rand.Rand, header, value string, _ []byte) []string { return asHeader(header, value) }},
	{name: "base64 for URLs", write: func(_ *rand.Rand, header, _ string, text []byte) []string {
		return asHeader(header, base64.RawURLEncoding.EncodeToString(text))
	}},
	{name: "base64 twice", wrong: true, write: func(_ *rand.Rand, header, value string, _ []byte) []string {
		return asHeader(header, base64.StdEncoding.EncodeToString([]byte(value)))
	}},
	{name: "hexadecimal", wrong: true, write: func(_ *rand.Rand, header, _ string, text []byte) []string {
		return asHeader(header, hex.EncodeToString(text))
	}},
	{name: "the JSON itself", wrong: true, write: func(_ *rand.Rand, header, _ string, text []byte) []string { return asHeader(header, string(text)) }},
	{name: "the header of the other version", wrong: true, write: func(_ *rand.Rand, header, value string, _ []byte) []string {
		return asHeader(map[string]string{"PAYMENT-SIGNATURE": "X-PAYMENT", "X-PAYMENT": "PAYMENT-SIGNATURE"}[header], value)
	}},
	{name: "both headers", write: func(_ *rand.Rand, _, value string, _ []byte) []string {
		return append(asHeader("PAYMENT-SIGNATURE", value), asHeader("X-PAYMENT", value)...)
	}},
	{name: "twice", write: func(_ *rand.Rand, header, value string, _ []byte) []string {
		return append(asHeader(header, value), asHeader(header, value)...)
	}},
	{name: "with a comma", wrong: true, write: func(_ *rand.Rand, header, value string, _ []byte) []string { return asHeader(header, value+", "+value) }},
	{name: "cut", wrong: true, write: func(r *rand.Rand, header, value string, _ []byte) []string {
		return asHeader(header, value[:r.IntN(len(value))]+"=")
	}},
	{name: "huge", wrong: true, write: func(r *rand.Rand, header, _ string, text []byte) []string {
		return asHeader(header, base64.StdEncoding.EncodeToString(append(text, bytes.Repeat([]byte{' '}, oneOf(r, 13<<10, 40<<10))...)))
	}},
	{name: "something behind it", wrong: true, write: rewritten(func(r *rand.Rand, text []byte) []byte { return append(text, oneOf(r, "{}", "x", "\x00", "]")...) })},
	{name: "a list", wrong: true, write: rewritten(func(_ *rand.Rand, text []byte) []byte { return []byte("[" + string(text) + "]") })},
	{name: "a member given twice", write: rewritten(twiceGiven)},
	{name: "a member in another case", write: rewritten(otherCase)},
	{name: "a value of another kind", write: rewritten(otherValue)},
	{name: "a value of another kind", write: rewritten(otherValue)},
	{name: "a value of another kind", write: rewritten(otherValue)},
	{name: "deep", write: rewritten(func(_ *rand.Rand, text []byte) []byte {
		return append([]byte(`{"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`,`), text[1:]...)
	})},
}

// rewritten is a form with another JSON text.
func rewritten(by func(r *rand.Rand, text []byte) []byte) func(*rand.Rand, string, string, []byte) []string {
	return func(r *rand.Rand, header, _ string, text []byte) []string {
		return asHeader(header, base64.StdEncoding.EncodeToString(by(r, text)))
	}
}

// members are where the members of a payment's objects are in its text: `"name":value`.
func members(text []byte) (all [][2]int) {
	for i := range text {
		if text[i] != '"' || i == 0 || text[i-1] != '{' && text[i-1] != ',' {
			continue
		}
		colon := i + bytes.IndexByte(text[i:], ':')
		var value json.RawMessage
		if d := json.NewDecoder(bytes.NewReader(text[colon+1:])); d.Decode(&value) == nil {
			all = append(all, [2]int{i, colon + 1 + len(value)})
		}
	}
	return all
}

// spliced is a text with something else from one place to another.
func spliced(text []byte, from, to int, with string) []byte {
	return append(append(append([]byte{}, text[:from]...), with...), text[to:]...)
}

// odd are values that readers may understand differently.
var odd = []string{
	"null", "0", "-1", "1.0", "1e3", `""`, `"0"`, `"-1"`, `"1e3"`, `"0x1"`, `" 1"`, `"１"`, "[]", "{}", "true", "18446744073709551616", `"18446744073709551615"`, "1e400", `"\u0000"`,
	`"0x` + "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0" + `"`, `"0X00000000000000000000000000000000000000AA"`,
}

func twiceGiven(r *rand.Rand, text []byte) []byte {
	m := oneOf(r, members(text)...)
	name, _, _ := strings.Cut(string(text[m[0]:m[1]]), ":")
	more := name + ":" + oneOf(r, odd...)
	if r.IntN(2) == 0 {
		return spliced(text, m[0], m[0], more+",")
	}
	return spliced(text, m[1], m[1], ","+more)
}

func otherCase(r *rand.Rand, text []byte) []byte {
	m := oneOf(r, members(text)...)
	name, value, _ := strings.Cut(string(text[m[0]:m[1]]), ":")
	return spliced(text, m[0], m[1], oneOf(r, strings.ToUpper(name), strings.ToLower(name))+":"+value)
}

func otherValue(r *rand.Rand, text []byte) []byte {
	m := oneOf(r, members(text)...)
	name, value, _ := strings.Cut(string(text[m[0]:m[1]]), ":")
	plain := strings.Trim(value, `"`)
	return spliced(text, m[0], m[1], name+":"+oneOf(r, append(odd, plain, `"0`+plain+`"`, `"`+strings.ToUpper(plain)+`"`, `"+`+plain+`"`, `"`+plain+`.0"`, `"`+plain+` "`)...))
}

// headers are those of the payment as the deal writes it.
func (d *deal) headers(t testing.TB, r *rand.Rand, pm *payment) []string {
	t.Helper()
	name, value, _ := strings.Cut(pm.header(), ": ")
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	return d.form.write(r, name, value, text)
}
