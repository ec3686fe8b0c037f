package redis

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/redislink"
	"bardo.money/gateway/policy"
)

// Bounds of the write queue.
const (
	maxPending      = 4096 // of each kind
	maxPendingBytes = 16 << 20
)

// overhead is the memory in bytes that an entry takes in Redis besides its content: keys, index, times.
const overhead = 1 << 10

// queue holds pending writes.
type queue struct {
	mu      sync.Mutex
	entries map[string]*put // by name, including the one that is being written
	order   []string
	bytes   int64
	counts  map[policy.Account]*counts
	entered map[market]string // regimes
	places  map[[16]byte]placed
	vectors map[string]*vector // by name of the entry
}

// vector is a question with a newly computed vector.
type vector struct {
	tenant policy.Account
	place  string
	row    *question
}

// put is an entry to store.
type put struct {
	tenant policy.Account
	entry  *cache.Entry
	epoch  int
	row    *question
	place  string
}

// counts are additions to a tenant's counters.
type counts struct {
	cache.Stats
	hits map[string]int64 // by entry
}

// market is an agent of a tenant.
type market struct {
	tenant policy.Account
	agent  string
}

// placed is where a conversation was served.
type placed struct {
	value []byte
	life  time.Duration
}

func (q *queue) init() {
	q.entries = map[string]*put{}
	q.takeSmall()
}

// small holds the pending writes other than entries.
type small struct {
	counts  map[policy.Account]*counts
	entered map[market]string
	places  map[[16]byte]placed
	vectors map[string]*vector
}

// takeSmall removes and returns the pending writes other than entries. The queue is locked.
func (q *queue) takeSmall() small {
	was := small{q.counts, q.entered, q.places, q.vectors}
	q.counts, q.entered, q.places, q.vectors = map[policy.Account]*counts{}, map[market]string{}, map[[16]byte]placed{}, map[string]*vector{}
	return was
}

// epoch is that of an entry that is pending or being written; ok is false for any other.
func (q *queue) epoch(id string) (epoch int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.entries[id]
	if !ok {
		return 0, false
	}
	return p.epoch, true
}

// add queues an entry, and reports whether there was room.
func (q *queue) add(id string, p *put) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(id)
	if len(q.entries) >= maxPending || q.bytes+p.entry.Size() > maxPendingBytes {
		return false
	}
	q.order = append(q.order, id)
	q.bytes += p.entry.Size()
	q.entries[id] = p
	return true
}

// drop removes an entry, if it is queued. The queue is locked.
func (q *queue) drop(id string) {
	p, ok := q.entries[id]
	if !ok {
		return
	}
	q.bytes -= p.entry.Size()
	delete(q.entries, id)
	q.order = slices.DeleteFunc(q.order, func(o string) bool { return o == id })
}

// next is the entry that has waited longest; nil if there is none.
func (q *queue) next() (id string, p *put) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return "", nil
	}
	id = q.order[0]
	return id, q.entries[id]
}

// done removes an entry that was written, but not one that has replaced it meanwhile.
func (q *queue) done(id string, p *put) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entries[id] == p {
		q.drop(id)
	}
}

// clear drops all entries, and returns their number.
func (q *queue) clear() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.entries)
	q.entries, q.order, q.bytes = map[string]*put{}, nil, 0
	return n
}

func (s *Store) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Put implements cache.Shared.
func (s *Store) Put(name policy.Account, e *cache.Entry, epoch int) {
	p := &put{tenant: name, entry: e, epoch: epoch}
	if at, r, ok := s.questions.Question(name, e.Key); ok {
		r.Expires = e.Expires
		p.place, p.row = s.place(name, at), newQuestion(&r)
	}
	if s.link.Problem() != nil || !s.queue.add(s.entry(name, e.Key), p) {
		s.o.Lost(1)
		return
	}
	s.wakeWriter()
}

// Count implements cache.Shared.
func (s *Store) Count(name policy.Account, k cache.Key, n cache.Stats) {
	id := s.entry(name, k)
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	c, ok := s.queue.counts[name]
	if !ok {
		if len(s.queue.counts) >= maxPending {
			return
		}
		c = &counts{hits: map[string]int64{}}
		s.queue.counts[name] = c
	}
	c.Hits, c.Misses, c.Saved = c.Hits+n.Hits, c.Misses+n.Misses, c.Saved+n.Saved
	if n.Hits > 0 && len(c.hits) < maxPending {
		c.hits[id] += n.Hits
	}
	s.wakeWriter()
}

// Entered implements cache.Shared.
func (s *Store) Entered(name policy.Account, m cache.Market) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if len(s.queue.entered) < maxPending {
		s.queue.entered[market{name, m.Agent}] = m.Regime
	}
	s.wakeWriter()
}

// write writes what is pending until the store is closed.
func (s *Store) write() {
	for {
		select {
		case <-s.wake:
		case <-s.closing:
			s.drain()
			return
		}
		s.drain()
	}
}

// drain writes what is pending. While Redis is unreachable, that is dropped: it may be out of date after the outage.
func (s *Store) drain() {
	s.writing.Lock()
	defer s.writing.Unlock()
	for id, p := s.queue.next(); p != nil; id, p = s.queue.next() {
		if err := s.link.Problem(); err != nil {
			s.o.Lost(s.queue.clear())
			break
		}
		if err := s.writePut(id, p); err != nil {
			s.fail(err)
			s.o.Lost(1)
		}
		s.queue.done(id, p)
	}
	s.queue.mu.Lock()
	small := s.queue.takeSmall()
	s.queue.mu.Unlock()
	if s.link.Problem() == nil {
		s.writeSmall(&small)
	}
}

// writeSmall writes the pending writes other than entries.
func (s *Store) writeSmall(batch *small) {
	for name, n := range batch.counts {
		if !s.noteError(s.writeCounts(name, n)) {
			return
		}
	}
	for of, regime := range batch.entered {
		_, err := s.remove(context.Background(), of.tenant, func(e *cache.Entry) bool { return e.Market.Agent == of.agent && e.Market.Regime != regime })
		if !s.noteError(err) {
			return
		}
	}
	for id, v := range batch.vectors {
		if !s.noteError(s.writeVector(id, v)) {
			return
		}
	}
	s.noteError(s.writePlaces(batch.places))
}

// Embedded implements semantic.Shared.
func (s *Store) Embedded(name policy.Account, p semantic.Place, r *semantic.Row) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if len(s.queue.vectors) < maxPending {
		s.queue.vectors[s.entry(name, r.Key)] = &vector{name, s.place(name, p), newQuestion(r)}
	}
	s.wakeWriter()
}

// writeVector writes a question with its vector.
func (s *Store) writeVector(id string, v *vector) error {
	row, err := s.writeQuestion(v.place, id, v.row)
	if err != nil {
		return err
	}
	_, err = s.run(context.Background(), vectorScript, s.prefix, s.tenant(v.tenant), id, v.place, row)
	return err
}

// noteError reports an error to the link, and returns whether there was none.
func (s *Store) noteError(err error) bool {
	if err != nil {
		s.fail(err)
	}
	return err == nil
}

// writePut writes an entry with its question.
func (s *Store) writePut(id string, p *put) error {
	tenant := s.tenant(p.tenant)
	body, err := s.writeEntry(id, p.entry)
	if err != nil {
		return err
	}
	heading, err := p.entry.EncodeHeading()
	if err != nil {
		return err
	}
	heading = s.seal(heading, "heading", tenant)
	var row []byte
	if p.row != nil {
		if row, err = s.writeQuestion(p.place, id, p.row); err != nil {
			return err
		}
	}
	now := time.Now()
	life, questionLife := p.entry.Expires.Add(cache.MaxStale).Sub(now), p.entry.Expires.Sub(now)
	_, err = s.run(context.Background(), putScript, s.prefix, tenant, id, p.epoch, ms(life), len(body)+len(heading)+len(row)+overhead, body, heading,
		p.place, row, ms(questionLife), s.o.MaxBytes, s.seal([]byte(p.tenant), "account", tenant))
	return err
}

func (s *Store) writeCounts(name policy.Account, n *counts) error {
	args := []any{s.prefix, s.tenant(name), ms(indexLife), n.Hits, n.Misses, int64(n.Saved)}
	for _, id := range slices.Sorted(maps.Keys(n.hits)) {
		args = append(args, id, n.hits[id])
	}
	_, err := s.run(context.Background(), countScript, args...)
	return err
}

// writePlaces writes where conversations were served.
func (s *Store) writePlaces(places map[[16]byte]placed) error {
	if len(places) == 0 {
		return nil
	}
	c, err := s.conn(context.Background())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for prefix, p := range places {
		key := s.conversation(prefix)
		if err := c.Send("SET", key, s.seal(p.value, "conversation", key), "PX", ms(p.life)); err != nil {
			return err
		}
	}
	_, err = c.Do("")
	return err
}

// conn returns a connection for work outside of requests.
func (s *Store) conn(ctx context.Context) (redigo.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	return s.workPool.GetContext(ctx)
}

// run runs a script outside of requests. It retries once if the connection broke while it was idle.
func (s *Store) run(ctx context.Context, lua *redigo.Script, args ...any) (any, error) {
	out, err := s.runOnce(ctx, lua, args)
	if err != nil && redislink.IsBroken(err) {
		s.link.Broke()
		out, err = s.runOnce(ctx, lua, args)
	}
	return out, err
}

func (s *Store) runOnce(ctx context.Context, lua *redigo.Script, args []any) (any, error) {
	c, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return lua.Do(c, args...)
}
