package hint

import (
	"maps"
	"net/url"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// hops is the member of X-Bardo-Forwarded with the number of gateways that a request has passed.
const hops = "hops"

// MaxHops is the number of gateways that a request may pass.
const MaxHops = 4

// golemID is the hint that another gateway gets with the caller's account: callers choose ids, and to the other gateway they are all one account.
const golemID = "golem_id"

// facts are the hints that say who asks, in which state, and how private it is. The others change how a request is served.
var facts = map[string]bool{
	golemID: true, "tick": true, "tick_type": true, "phase": true, "regime": true, "vitality": true, "task_class": true, "security_class": true,
	"privacy_tier": true, "no_cache": true,
}

// own are the hints that no other gateway gets: those that refer to what this one keeps for an account, the surface that it writes the answer for, and those
// with texts, which this gateway applies (policy.Hints.HaveTexts).
var own = map[string]bool{"session_id": true, "dream_cycle_id": true, "surface": true, "profile": true, "scenario": true}

// Forwarded returns what another gateway gets with a request of an account, the value of X-Bardo-Forwarded, in the form of a query: the number of gateways that
// the request has passed, and the hints of its headers l, else of the body's object. The hints were parsed before, without an error. relayed: the other gateway
// applies all hints; otherwise it gets only facts, since this gateway applied the rest. The error is a fault: gateways that pass a request on in a circle stop
// at MaxHops, and hints may be too long for a header.
func Forwarded(l header.List, object jsonx.Value, account policy.Account, relayed bool) (string, error) {
	passed, err := passedGateways(l)
	if err != nil {
		return "", err
	}
	q := url.Values{}
	passes := func(name string) bool {
		return indexOf(keys, []byte(name)) >= 0 && !own[name] && (relayed || facts[name])
	}
	for i := range l {
		if l[i].Name == header.Forwarded {
			earlier, _ := url.ParseQuery(l[i].Value) // it was parsed before
			maps.DeleteFunc(earlier, func(name string, _ []string) bool { return !passes(name) })
			maps.Copy(q, earlier)
			continue
		}
		rest, ok := strings.CutPrefix(l[i].Name, prefix)
		if name := strings.ReplaceAll(rest, "-", "_"); ok && passes(name) {
			q.Add(name, strings.TrimSpace(l[i].Value))
		}
	}
	given := maps.Clone(q)
	for key, m := range object.Members {
		if name := string(key); passes(name) && given[name] == nil && !m.IsNull() {
			addMember(q, name, m)
		}
	}
	if id := q.Get(golemID); id != "" {
		if q.Set(golemID, string(account)+":"+id); len(q.Get(golemID)) > maxID {
			q.Del(golemID)
		}
	}
	q.Set(hops, strconv.Itoa(passed+1))
	text := q.Encode()
	if len(text) > maxHeaderJSON {
		return "", fault.Newf(fault.InvalidRequest, "the hints are too long for the gateway that serves this request: %d bytes of %d", len(text), maxHeaderJSON)
	}
	return text, nil
}

// passedGateways returns how many gateways a request has passed.
func passedGateways(l header.List) (int, error) {
	text := l.Get(header.Forwarded)
	if text == "" {
		return 0, nil
	}
	q, _ := url.ParseQuery(text) // it was parsed before
	n, err := strconv.ParseUint(q.Get(hops), 10, 8)
	if err != nil || n >= MaxHops {
		return 0, fault.Newf(fault.InvalidRequest, "the request has passed %q gateways, and may pass %d: do they call each other in a circle?", q.Get(hops), MaxHops)
	}
	return int(n), nil
}

// addMember adds a member of the body's object, as a header has it.
func addMember(q url.Values, name string, m jsonx.Value) {
	if m.Kind() == jsonx.Array {
		for _, e := range m.Each {
			addMember(q, name, e)
		}
		return
	}
	text, ok := m.Str()
	if !ok {
		text = string(m.Raw)
	}
	q.Add(name, text)
}

// fromGateway parses the hints that another gateway forwards.
func (s *Present) fromGateway(text string, h *policy.Hints) error {
	q, err := url.ParseQuery(text)
	if err != nil || len(text) > maxHeaderJSON {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Forwarded: expected hints in the form of a query, hops=1&subsystem=risk")
	}
	for i := range keys {
		name := strings.ReplaceAll(keys[i].name, "_", "-")
		for _, v := range q[keys[i].name] {
			if err := s.header(name, v, h); err != nil {
				return err
			}
		}
	}
	return nil
}
