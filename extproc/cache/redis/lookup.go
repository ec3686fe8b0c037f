package redis

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/policy"
)

var (
	_ cache.Shared    = (*Store)(nil)
	_ semantic.Shared = (*Store)(nil)
)

// Results of the script lookup.
const (
	absent = iota
	_      // the copy is the same
	another
)

// Lookup implements cache.Shared. An entry that this gateway has not yet written counts as stored.
func (s *Store) Lookup(ctx context.Context, name policy.Account, k cache.Key, have *cache.Entry) (*cache.Entry, cache.State, error) {
	id := s.entry(name, k)
	epoch, waits := s.queue.epoch(id) // before the lookup, since it may be written in between
	var tag []byte
	if have != nil {
		tag = have.Tag[:]
	}
	reply, err := redigo.Values(s.lookup(ctx, with(lookupScript, s.prefix, s.tenant(name), id, tag)))
	if err != nil {
		return nil, cache.State{}, err
	}
	var now cache.State
	var status int
	var body []byte
	if _, err := redigo.Scan(reply, &now.Epoch, &now.Removals, &status, &body); err != nil {
		s.o.Looked(Failed)
		return nil, now, err
	}
	e := have
	switch {
	case waits && epoch == now.Epoch:
	case status == absent:
		e = nil
	case status == another:
		if e, err = s.readEntry(id, body); err != nil {
			s.o.Log.Warn("a shared stored answer is broken, and not used", "error", err)
			e = nil
		}
	}
	s.o.Looked(outcomeOf(e != nil))
	return e, now, nil
}

// with runs a script.
func with(run *redigo.Script, args ...any) func(redigo.Conn) (any, error) {
	return func(c redigo.Conn) (any, error) { return run.Do(c, args...) }
}

func outcomeOf(found bool) Outcome {
	if found {
		return Found
	}
	return Absent
}

// writeEntry encrypts an entry. The tag precedes it in clear, for comparisons.
func (s *Store) writeEntry(id string, e *cache.Entry) ([]byte, error) {
	plain, err := e.Encode()
	if err != nil {
		return nil, err
	}
	return append(e.Tag[:], s.seal(plain, "entry", id, string(e.Tag[:]))...), nil
}

// readEntry decrypts the result of writeEntry.
func (s *Store) readEntry(id string, body []byte) (*cache.Entry, error) {
	var tag cache.Tag
	if copy(tag[:], body) < len(tag) {
		return nil, errShort
	}
	plain, err := s.open(body[len(tag):], "entry", id, string(tag[:]))
	if err != nil {
		return nil, err
	}
	e, err := cache.Decode(plain)
	if err != nil {
		return nil, err
	}
	e.Tag = tag
	return e, nil
}

// errShort is the error of a truncated value.
var errShort = errors.New("the value is too short")

// question is a stored question.
type question struct {
	Key     cache.Key
	Text    string
	Expires time.Time
	Vector  []byte `json:",omitempty"` // see packed; empty until a gateway has compared the question
	Tag     string `json:",omitempty"` // of the model that computed the vector
}

func newQuestion(r *semantic.Row) *question {
	return &question{r.Key, r.Text, r.Expires, packed(r.Vector), r.Tag}
}

// row is the question as a row of the index.
func (q *question) row() semantic.Row {
	r := semantic.Row{Key: q.Key, Text: q.Text, Expires: q.Expires}
	if q.Tag != "" && len(q.Vector) > 0 && len(q.Vector)%4 == 0 {
		r.Vector, r.Tag = unpacked(q.Vector), q.Tag
	}
	return r
}

// packed is a vector as bytes, four for each number, in little endian.
func packed(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func unpacked(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// Rows implements semantic.Shared.
func (s *Store) Rows(ctx context.Context, name policy.Account, p semantic.Place) (rows []semantic.Row, banned bool, now cache.State, err error) {
	at := s.place(name, p)
	reply, err := redigo.Values(s.lookup(ctx, with(rowsScript, s.prefix, s.tenant(name), at)))
	if err != nil {
		return nil, false, now, err
	}
	if reply, err = redigo.Scan(reply, &now.Epoch, &now.Removals, &banned); err != nil {
		return nil, false, now, err
	}
	pairs, err := redigo.ByteSlices(reply, nil)
	if err != nil {
		return nil, false, now, err
	}
	for ; len(pairs) > 1; pairs = pairs[2:] {
		if q, err := s.readQuestion(at, string(pairs[0]), pairs[1]); err == nil { // a broken one is skipped
			rows = append(rows, q.row())
		}
	}
	s.o.Looked(outcomeOf(len(rows) > 0))
	return rows, banned, now, nil
}

func (s *Store) writeQuestion(at, id string, q *question) ([]byte, error) {
	plain, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return s.seal(plain, "question", at, id), nil
}

func (s *Store) readQuestion(at, id string, sealed []byte) (q question, err error) {
	plain, err := s.open(sealed, "question", at, id)
	if err != nil {
		return q, err
	}
	return q, json.Unmarshal(plain, &q)
}

// Ban implements semantic.Shared.
func (s *Store) Ban(ctx context.Context, name policy.Account, key cache.Key) error {
	_, err := s.run(ctx, banScript, s.prefix, s.tenant(name), s.entry(name, key), ms(banLife))
	return err
}

// conversation is the key of a conversation's prefix.
func (s *Store) conversation(prefix [16]byte) string {
	return s.prefix + "a:" + s.name(32, "conversation", string(prefix[:]))
}

// Limit is the time limit of a lookup.
func (s *Store) Limit() time.Duration { return s.o.Timeout }

// Served returns the value that SetServed stored for each prefix of a conversation; nil for an unknown one. An error means that Redis did not answer within its time
// limit.
func (s *Store) Served(ctx context.Context, prefixes [][16]byte) ([][]byte, error) {
	keys := make([]any, len(prefixes))
	for i, p := range prefixes {
		keys[i] = s.conversation(p)
	}
	values, err := redigo.ByteSlices(s.lookup(ctx, func(c redigo.Conn) (any, error) { return c.Do("MGET", keys...) }))
	if err != nil {
		return nil, err
	}
	found := false
	for i := range values {
		if values[i] == nil {
			continue
		}
		values[i], _ = s.open(values[i], "conversation", s.conversation(prefixes[i])) // a broken one is nil
		found = found || values[i] != nil
	}
	s.o.Looked(outcomeOf(found))
	return values, nil
}

// SetServed asynchronously stores where a conversation was served, for a lifetime. It does not block.
func (s *Store) SetServed(prefix [16]byte, value []byte, life time.Duration) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if len(s.queue.places) < maxPending {
		s.queue.places[prefix] = placed{value, life}
	}
	s.wakeWriter()
}

// readHeading decodes one value of an index: size|PLACE|heading.
func (s *Store) readHeading(tenant string, value []byte, hits int64) (*cache.Entry, error) {
	parts := bytes.SplitN(value, []byte("|"), 3)
	if len(parts) < 3 {
		return nil, errShort
	}
	plain, err := s.open(parts[2], "heading", tenant)
	if err != nil {
		return nil, err
	}
	return cache.DecodeHeading(plain, hits, len(parts[1]) > 0)
}
