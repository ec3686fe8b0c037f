package ledger

import (
	"sync"

	"bardo.money/gateway/policy/ledger/chargelog"
)

// pending has this gateway's entries that the store does not have yet, by request and resource. The zero value is empty.
type pending struct {
	mu        sync.Mutex
	requests  map[string]*chargelog.Entry
	resources map[string]StoredResource
}

func (p *pending) add(e *chargelog.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests == nil {
		p.requests, p.resources = map[string]*chargelog.Entry{}, map[string]StoredResource{}
	}
	if e.Charge != nil {
		p.requests[e.Charge.RequestID] = e
	}
	for _, k := range e.Resources {
		if _, ok := p.resources[k.ID]; !ok {
			p.resources[k.ID] = k
		}
	}
}

func (p *pending) remove(e *chargelog.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Charge != nil && p.requests[e.Charge.RequestID] == e {
		delete(p.requests, e.Charge.RequestID)
	}
	for _, k := range e.Resources {
		if p.resources[k.ID] == k { // not if it is another account's
			delete(p.resources, k.ID)
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

func (p *pending) resource(id string) (StoredResource, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.resources[id]
	return k, ok
}
