package chargelog

import (
	"encoding/binary"
	"errors"
	"time"

	"bardo.money/gateway/policy"
)

// Charge is the usage and cost of one request.
type Charge struct {
	RequestID string
	Account   policy.Account // "" for an anonymous request
	Amount    policy.Micro   // cost for the account

	ProviderCost policy.Pico // cost for the operator, exact
	Tokens       Tokens

	Provider  policy.ProviderID
	Model     policy.ModelID
	Subsystem string
	Status    string    // how the request ended (record.OK, …)
	Record    []byte    // the request's record as JSON
	At        time.Time // zero means now

	// The budget that it counts toward, see ledger.SpentByPart.
	Agent string // id of the agent within the key; "" if not given
	Part  string // the agent's part; "" means no budget

	Staked policy.Micro // paid by the operator's staked credit, see ledger.PartStake

	Savings []policy.Saving // by the layers of the pipeline, each layer once
}

// Tokens are a request's tokens. Input excludes tokens read from or written to a cache; Output includes Reasoning.
type Tokens struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
}

// StoredResource is a resource that a provider stores (a file, batch or response) and the account that owns it. Several accounts may share the
// provider's key, which can access all of them.
type StoredResource struct {
	ID       string // issued by the provider
	Account  policy.Account
	Provider policy.ProviderID
}

// Entry is one change by a gateway that may not be in the store yet. Applying it twice changes nothing: charges and resources have unique ids.
type Entry struct {
	Charge  *Charge
	Prepaid bool         // the charge is taken from a balance
	Paid    policy.Micro // the part that the gateway's block pays

	Standing policy.Micro // the part that the request's standing hold pays, which ends

	Open        bool // the rest is paid from the balance when the entry is applied; else it is a loss
	Resources   []StoredResource
	ResourcesAt int64 // in microseconds since 1970
}

// Expected is the amount that an entry probably takes from its account, or counts as spent by a metered one.
func (e *Entry) Expected() policy.Micro {
	if e.Prepaid && !e.Open {
		return e.Paid + e.Standing
	}
	return e.Charge.Amount
}

// IsOf reports whether an entry is a charge of an account, or of any for "".
func (e *Entry) IsOf(acct policy.Account) bool {
	return e.Charge != nil && (acct == "" || e.Charge.Account == acct)
}

// The flags of an encoded entry.
const (
	hasCharge = 1 << iota
	isPrepaid
	isOpen
	hasKept
	hasSavings
	isStanding
)

// errEncoding says that an entry with a valid checksum cannot be decoded, because a newer version wrote it.
var errEncoding = errors.New("an entry is not of a form that this version reads")

// encode appends the entry to b.
func (e *Entry) encode(b []byte) []byte {
	b = append(b, e.flags())
	if e.Charge != nil {
		b = appendInts(b, int64(e.Paid))
		if e.Standing != 0 {
			b = appendInts(b, int64(e.Standing))
		}
		b = e.Charge.encode(b)
	}
	if e.flags()&hasSavings != 0 {
		b = appendSavings(b, e.Charge.Savings)
	}
	if len(e.Resources) == 0 {
		return b
	}
	b = appendInts(b, e.ResourcesAt, int64(len(e.Resources)))
	for _, k := range e.Resources {
		b = appendStrings(b, k.ID, string(k.Account), string(k.Provider))
	}
	return b
}

func (e *Entry) flags() (f byte) {
	if e.Charge != nil {
		f |= hasCharge
	}
	if e.Prepaid {
		f |= isPrepaid
	}
	if e.Open {
		f |= isOpen
	}
	if e.Charge != nil && e.Standing != 0 {
		f |= isStanding
	}
	if len(e.Resources) > 0 {
		f |= hasKept
	}
	if e.Charge != nil && len(e.Charge.Savings) > 0 {
		f |= hasSavings
	}
	return f
}

func appendSavings(b []byte, all []policy.Saving) []byte {
	b = appendInts(b, int64(len(all)))
	for i := range all {
		b = appendInts(appendStrings(b, all[i].Layer), all[i].Tokens, int64(all[i].Amount))
	}
	return b
}

func (c *Charge) encode(b []byte) []byte {
	t := &c.Tokens
	b = appendStrings(b, c.RequestID, string(c.Account), string(c.Provider), string(c.Model), c.Subsystem, c.Status, c.Agent, c.Part)
	b = appendInts(b, int64(c.Amount), int64(c.ProviderCost), int64(c.Staked), c.At.UnixMicro(),
		t.Input, t.Cached, t.CacheWrite, t.Output, t.Reasoning, int64(len(c.Record)))
	return append(b, c.Record...)
}

func appendStrings(b []byte, all ...string) []byte {
	for _, s := range all {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func appendInts(b []byte, all ...int64) []byte {
	for _, n := range all {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// decode decodes an entry.
func decode(b []byte) (*Entry, error) {
	r := reader{b: b}
	flags := r.take(1)
	if len(flags) == 0 || flags[0]&^(hasCharge|isPrepaid|isOpen|hasKept|hasSavings|isStanding) != 0 {
		return nil, errEncoding
	}
	e := &Entry{Prepaid: flags[0]&isPrepaid != 0, Open: flags[0]&isOpen != 0}
	if flags[0]&hasCharge != 0 {
		e.Paid = policy.Micro(r.int())
		if flags[0]&isStanding != 0 {
			e.Standing = policy.Micro(r.int())
		}
		e.Charge = r.charge()
	}
	if flags[0]&hasSavings != 0 {
		if e.Charge == nil {
			return nil, errEncoding
		}
		e.Charge.Savings = r.savings()
	}
	if flags[0]&hasKept != 0 {
		e.ResourcesAt = r.int()
		for range r.length() {
			e.Resources = append(e.Resources, StoredResource{ID: r.string(), Account: policy.Account(r.string()), Provider: policy.ProviderID(r.string())})
		}
	}
	if r.failed || len(r.b) > 0 || flags[0] != e.flags() { // a part that is announced is not empty
		return nil, errEncoding
	}
	return e, nil
}

// reader reads the values of an entry. After a failure they are zero.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) charge() *Charge {
	c := &Charge{
		RequestID: r.string(), Account: policy.Account(r.string()), Provider: policy.ProviderID(r.string()), Model: policy.ModelID(r.string()),
		Subsystem: r.string(), Status: r.string(), Agent: r.string(), Part: r.string(),
		Amount: policy.Micro(r.int()), ProviderCost: policy.Pico(r.int()), Staked: policy.Micro(r.int()), At: time.UnixMicro(r.int()),
		Tokens: Tokens{Input: r.int(), Cached: r.int(), CacheWrite: r.int(), Output: r.int(), Reasoning: r.int()},
	}
	if n := r.length(); n > 0 {
		c.Record = append([]byte(nil), r.take(n)...)
	}
	return c
}

func (r *reader) savings() (all []policy.Saving) {
	for range r.length() {
		all = append(all, policy.Saving{Layer: r.string(), Tokens: r.int(), Amount: policy.Micro(r.int())})
	}
	return all
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		return r.fail()
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) fail() int64 {
	r.failed, r.b = true, nil
	return 0
}

// length reads the number of the following items, each of at least one byte.
func (r *reader) length() int {
	n := r.int()
	if n < 0 || n > int64(len(r.b)) {
		return int(r.fail())
	}
	return int(n)
}

func (r *reader) string() string {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)-size) { //nolint:gosec // not negative
		r.fail()
		return ""
	}
	r.b = r.b[size:]
	return string(r.take(int(n))) //nolint:gosec // at most len(r.b)
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail()
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}
