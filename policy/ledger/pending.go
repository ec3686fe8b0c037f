package ledger

import (
	"sync"

	"bardo.money/gateway/policy/ledger/chargelog"
)

// pending has this gateway's entries that the store does not have yet, by request and resource. The zero value is empty.
type pending struct {
	mu       sync.Mutex
	requests map[string]*chargelog.Entry
	kept     map[string]Kept
}

func (p *pending) add(e *chargelog.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests == nil {
		p.requests, p.kept = map[string]*chargelog.Entry{}, map[string]Kept{}
	}
	if e.Charge != nil {
		p.requests[e.Charge.RequestID] = e
	}
	for _, k := range e.Kept {
		if _, ok := p.kept[k.ID]; !ok {
			p.kept[k.ID] = k
		}
	}
}

func (p *pending) remove(e *chargelog.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Charge != nil && p.requests[e.Charge.RequestID] == e {
		delete(p.requests, e.Charge.RequestID)
	}
	for _, k := range e.Kept {
		if p.kept[k.ID] == k { // not if it is another account's
			delete(p.kept, k.ID)
		}
	}
}

// entry finds the entry of a request.
func (p *pending) entry(request string) (e *chargelog.Entry, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok = p.requests[request]
	return e, ok
}

// all returns the entries of requests, in no order.
func (p *pending) all() []*chargelog.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*chargelog.Entry, 0, len(p.requests))
	for _, e := range p.requests {
		all = append(all, e)
	}
	return all
}

func (p *pending) resource(id string) (Kept, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.kept[id]
	return k, ok
}
