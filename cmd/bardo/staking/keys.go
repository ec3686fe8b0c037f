package staking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/stake"
	"bardo.money/gateway/xds/state"
)

// The events of a position, and of the key that follows it.
var (
	eventRead = event.Declare[position]("venice:stake_read", "The staked VVV was read.")
	eventLow  = event.Declare[lowCredit]("venice:credit_low", "The staked VVV gives less credit than the minimum: Venice is not used, and an agent should save.").Audited()
	eventKey  = event.Declare[changed]("venice:key_changed", "The gateway's key at Venice was issued, rotated, throttled, raised or revoked.").Audited()
)

type position struct {
	Wallet  string       `json:"wallet"`
	Staked  string       `json:"staked"` // in 1e-18 VVV
	Credits float64      `json:"credits"`
	Phase   string       `json:"phase"`
	Limit   policy.Micro `json:"limit_usd"`
}

type lowCredit struct {
	Credits float64 `json:"credits"`
	Min     float64 `json:"min_credit"`
}

type changed struct {
	Action stake.Action `json:"action"`
	KeyID  string       `json:"key_id"` // at Venice
	Phase  string       `json:"phase"`
	Limit  policy.Micro `json:"limit_usd"`
}

// callTimeout bounds one call.
const callTimeout = 30 * time.Second

// grace is how long a rotated key is kept, for requests in flight that use it.
const grace = 10 * time.Second

// read reads the position. On an error the previous one is kept.
func (m *Manager) read(ctx context.Context, s *config.Staking) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o, err := nodeOptions(s)
	if err != nil {
		return err
	}
	if m.chain == nil || m.node != o {
		if m.o.Open == nil {
			return errors.New("this program reads no chain")
		}
		m.chain = nil
		c, err := m.o.Open(ctx, o)
		if err != nil {
			return err
		}
		m.chain, m.node = c, o
	}
	if err := m.chain.Check(ctx); err != nil {
		return err
	}
	n, err := m.chain.Staked(ctx)
	if err == nil {
		m.staked = n
	}
	return err
}

func nodeOptions(s *config.Staking) (o stake.NodeOptions, err error) {
	known, ok := pay.FindNetwork(s.Network)
	if !ok {
		return o, fmt.Errorf("the network %q is not known", s.Network)
	}
	o = stake.NodeOptions{URL: s.RPC.Reveal(), Network: known.Network}
	if o.Contract, err = pay.ParseAddress(s.Contract); err != nil {
		return o, err
	}
	o.Wallet, err = pay.ParseAddress(s.Wallet)
	return o, err
}

// updateKey adjusts the key to the position.
func (m *Manager) updateKey(ctx context.Context, v *config.Venice, credits float64, limit policy.Micro, p policy.Phase) error {
	if err := m.findUnusedKeys(ctx, v); err != nil {
		return err
	}
	action := stake.Decide(m.key, limit, p)
	err := m.act(ctx, v, action, stake.Key{ID: m.key.ID, Limit: limit, Phase: p})
	if errors.Is(err, errUnknownKey) { // somebody deleted it
		m.key, action = stake.Key{}, stake.Issue
		err = m.act(ctx, v, action, stake.Key{Limit: limit, Phase: p})
	}
	m.setCredits(credits)
	return errors.Join(err, m.deleteUnused(ctx, v))
}

// act performs an action; want is the key afterwards.
func (m *Manager) act(ctx context.Context, v *config.Venice, a stake.Action, want stake.Key) error {
	old := m.key.ID
	switch a {
	case stake.Keep:
		return nil
	case stake.Issue, stake.Rotate:
		if err := m.issue(ctx, v, want); err != nil {
			return err
		}
		if old != "" {
			m.unused = append(m.unused, unusedKey{old, time.Now().Add(grace)})
		}
	case stake.Throttle, stake.Raise:
		doc, err := stake.NewLimit(old, want.Limit)
		if err == nil {
			_, err = m.call(ctx, v, http.MethodPatch, "", doc)
		}
		if err != nil {
			return fmt.Errorf("the limit of the key: %w", err)
		}
		m.key = want
	case stake.Revoke:
		m.key = stake.Key{}
		m.setKey(secret.Text{})
		m.unused = append(m.unused, unusedKey{id: old})
		want.ID = old
	}
	if m.key.ID != "" {
		want.ID = m.key.ID
	}
	m.o.Log.Info("the key at Venice follows the staked VVV", "action", string(a), "key_id", want.ID, "phase", want.Phase.String(), "limit_usd", want.Limit.String())
	eventKey.Emit(m.o.Events, "", changed{a, want.ID, want.Phase.String(), want.Limit})
	return nil
}

// issue creates a key, and puts it in force.
func (m *Manager) issue(ctx context.Context, v *config.Venice, k stake.Key) error {
	doc, err := stake.NewKey(m.name, k.Limit)
	if err != nil {
		return err
	}
	b, err := m.call(ctx, v, http.MethodPost, "", doc)
	if err == nil {
		var text string
		if k.ID, text, err = stake.ParseNew(b); err == nil {
			m.key = k
			m.setKey(secret.New(text))
			return nil
		}
	}
	m.keysListed = false // an unknown key may have been created
	return fmt.Errorf("a new key: %w", err)
}

// findUnusedKeys lists the keys with this gateway's name, and marks unknown ones for deletion: those of earlier processes, and those whose answers were lost.
func (m *Manager) findUnusedKeys(ctx context.Context, v *config.Venice) (err error) {
	if m.keysListed {
		return nil
	}
	if m.name == "" {
		if m.name, err = nameOf(m.o.Home); err != nil {
			return err
		}
	}
	b, err := m.call(ctx, v, http.MethodGet, "", nil)
	if err != nil {
		return fmt.Errorf("the list of keys: %w", err)
	}
	ids, err := stake.ParseNamed(b, m.name)
	if err != nil {
		return err
	}
	for _, id := range ids {
		known := id == m.key.ID || slices.ContainsFunc(m.unused, func(s unusedKey) bool { return s.id == id })
		if !known {
			m.unused = append(m.unused, unusedKey{id: id})
		}
	}
	m.keysListed = true
	return nil
}

// deleteUnused deletes the keys that are not used any more. Failures are retried at the next poll.
func (m *Manager) deleteUnused(ctx context.Context, v *config.Venice) error {
	var left []unusedKey
	var failed error
	for _, s := range m.unused {
		if time.Now().Before(s.from) {
			left = append(left, s)
			continue
		}
		if _, err := m.call(ctx, v, http.MethodDelete, "?id="+url.QueryEscape(s.id), nil); err != nil && !errors.Is(err, errUnknownKey) {
			left, failed = append(left, s), fmt.Errorf("a key was not deleted: %w", err)
		}
	}
	m.unused = left
	return failed
}

// setCredits puts the credits in force.
func (m *Manager) setCredits(credits float64) {
	now := liveState{credits: credits}
	if before := m.live.Load(); before != nil {
		now.key = before.key
		if before.credits == credits {
			return
		}
	}
	m.live.Store(&now)
	m.notify()
}

// setKey puts a key in force; an empty one means that requests have none.
func (m *Manager) setKey(key secret.Text) {
	now := liveState{key: key}
	if before := m.live.Load(); before != nil {
		now.credits = before.credits
	}
	m.live.Store(&now)
	m.notify()
}

func (m *Manager) notify() {
	select {
	case m.o.Changed <- struct{}{}:
	default: // it is going to be read anyway
	}
}

var (
	errNoEnvoy    = errors.New("no Envoy yet")
	errUnknownKey = errors.New("the key is not known at Venice")
)

// call calls Venice's key API with the admin key.
func (m *Manager) call(ctx context.Context, v *config.Venice, method, query string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://egress"+v.BaseURL.Path+stake.Path+query, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Host = v.BaseURL.Host
	req.GetBody = nil // never sent twice
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+v.Staking.AdminKey.Reveal())
	req.Header.Set(state.HeaderCluster, state.Cluster(m.o.Cluster(m.o.Config())))
	req.Header.Set(state.HeaderExchange, m.o.Secret()+".venice")
	resp, err := m.o.Egress.Do(req) //nolint:bodyclose // CloseBody does it
	if err != nil {
		return nil, errNoEnvoy
	}
	defer upstream.CloseBody(resp)
	why := resp.Header.Get(state.HeaderFailure)
	switch {
	case why != "":
		return nil, fmt.Errorf("no answer: %s", why)
	case resp.StatusCode == http.StatusNotFound:
		return nil, errUnknownKey
	case resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices:
		return nil, fmt.Errorf("it was answered with status %d", resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, stake.MaxDocument+1))
	if err == nil && len(b) > stake.MaxDocument {
		err = fmt.Errorf("an answer of more than %d bytes", stake.MaxDocument)
	}
	return b, err
}
