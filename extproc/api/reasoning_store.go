package api

import (
	"sync"
	"time"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

// Limits of stored reasoning (D-44).
const (
	reasoningTime     = 10 * time.Minute
	maxReasonings     = 4096     // number of answers
	maxReasoningBytes = 64 << 20 // bytes of all answers together
	maxReasoning      = 4 << 20  // bytes of one answer
)

// ReasoningStore keeps the reasoning of answers in memory for ten minutes. Beyond its limits the oldest is dropped first. The zero value is empty.
// Safe for concurrent use.
type ReasoningStore struct {
	mu     sync.Mutex
	byID   map[string]*storedChain
	queue  []*storedChain // the oldest first
	bytes  int
	ending *time.Timer // for the oldest entry; nil if empty
}

// storedChain is the stored reasoning of one answer.
type storedChain struct {
	id      string
	account policy.Account
	json    []byte
	over    time.Time
}

// Put stores an answer's reasoning for an account, unless it is too large.
func (s *ReasoningStore) Put(id string, account policy.Account, json []byte) {
	if len(json) > maxReasoning {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*storedChain{}
	}
	k := &storedChain{id: id, account: account, json: json, over: time.Now().Add(reasoningTime)}
	s.byID[id] = k
	s.queue = append(s.queue, k)
	s.bytes += len(json)
	for len(s.queue) > maxReasonings || s.bytes > maxReasoningBytes {
		s.drop()
	}
	if s.ending == nil {
		s.ending = time.AfterFunc(time.Until(s.queue[0].over), guard.Func(s.clear))
	}
}

// drop removes the oldest entry. The caller holds mu.
func (s *ReasoningStore) drop() {
	k := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	delete(s.byID, k.id)
	s.bytes -= len(k.json)
}

// clear removes expired entries.
func (s *ReasoningStore) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.queue) > 0 && !now.Before(s.queue[0].over) {
		s.drop()
	}
	s.ending = nil
	if len(s.queue) > 0 {
		s.ending = time.AfterFunc(time.Until(s.queue[0].over), guard.Func(s.clear))
	}
}

// get returns an account's entry for an answer; nil if there is none, or it belongs to another account.
func (s *ReasoningStore) get(id string, account policy.Account) *storedChain {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byID[id]
	if k == nil || k.account != account || account == "" || !time.Now().Before(k.over) {
		return nil
	}
	return k
}
