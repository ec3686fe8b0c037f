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

// callTime bounds one call.
const callTime = 30 * time.Second

// grace is how long a key that was exchanged stays: requests that began before may still use it.
const grace = 10 * time.Second

// read reads the position. What was read before stays where that fails.
func (m *Manager) read(ctx context.Context, s *config.Staking) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
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

// follow has the key follow the position.
func (m *Manager) follow(ctx context.Context, v *config.Venice, credits float64, limit policy.Micro, p policy.Phase) error {
	if err := m.clear(ctx, v); err != nil {
		return err
	}
	action := stake.Decide(m.key, limit, p)
	err := m.act(ctx, v, action, stake.Key{ID: m.key.ID, Limit: limit, Phase: p})
	if errors.Is(err, errGone) { // somebody deleted it
		m.key, action = stake.Key{}, stake.Issue
		err = m.act(ctx, v, action, stake.Key{Limit: limit, Phase: p})
	}
	m.note(credits)
	return errors.Join(err, m.discard(ctx, v))
}

// act does what was decided; then is the key as it is to be.
func (m *Manager) act(ctx context.Context, v *config.Venice, a stake.Action, then stake.Key) error {
	old := m.key.ID
	switch a {
	case stake.Keep:
		return nil
	case stake.Issue, stake.Rotate:
		if err := m.issue(ctx, v, then); err != nil {
			return err
		}
		if old != "" {
			m.spare = append(m.spare, spare{old, time.Now().Add(grace)})
		}
	case stake.Throttle, stake.Raise:
		doc, err := stake.NewLimit(old, then.Limit)
		if err == nil {
			_, err = m.call(ctx, v, http.MethodPatch, "", doc)
		}
		if err != nil {
			return fmt.Errorf("the limit of the key: %w", err)
		}
		m.key = then
	case stake.Revoke:
		m.key = stake.Key{}
		m.put(secret.Text{})
		m.spare = append(m.spare, spare{id: old})
		then.ID = old
	}
	if m.key.ID != "" {
		then.ID = m.key.ID
	}
	m.o.Log.Info("the key at Venice follows the staked VVV", "action", string(a), "key_id", then.ID, "phase", then.Phase.String(), "limit_usd", then.Limit.String())
	eventKey.Emit(m.o.Events, "", changed{a, then.ID, then.Phase.String(), then.Limit})
	return nil
}

// issue makes a key, and puts it in force.
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
			m.put(secret.New(text))
			return nil
		}
	}
	m.cleared = false // there may be a key that nobody knows
	return fmt.Errorf("a new key: %w", err)
}

// clear deletes the keys with this gateway's name that it does not know: those of earlier processes, and those whose answers were lost.
func (m *Manager) clear(ctx context.Context, v *config.Venice) (err error) {
	if m.cleared {
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
		known := id == m.key.ID || slices.ContainsFunc(m.spare, func(s spare) bool { return s.id == id })
		if !known {
			m.spare = append(m.spare, spare{id: id})
		}
	}
	m.cleared = true
	return nil
}

// discard deletes the keys that are not used any more. What fails is tried again at the next look.
func (m *Manager) discard(ctx context.Context, v *config.Venice) error {
	var left []spare
	var failed error
	for _, s := range m.spare {
		if time.Now().Before(s.from) {
			left = append(left, s)
			continue
		}
		if _, err := m.call(ctx, v, http.MethodDelete, "?id="+url.QueryEscape(s.id), nil); err != nil && !errors.Is(err, errGone) {
			left, failed = append(left, s), fmt.Errorf("a key was not deleted: %w", err)
		}
	}
	m.spare = left
	return failed
}

// note puts the credits in force.
func (m *Manager) note(credits float64) {
	now := standing{credits: credits}
	if before := m.live.Load(); before != nil {
		now.key = before.key
		if before.credits == credits {
			return
		}
	}
	m.live.Store(&now)
	m.tell()
}

// put puts a key in force; an empty one ends what requests may use.
func (m *Manager) put(key secret.Text) {
	now := standing{key: key}
	if before := m.live.Load(); before != nil {
		now.credits = before.credits
	}
	m.live.Store(&now)
	m.tell()
}

func (m *Manager) tell() {
	select {
	case m.o.Changed <- struct{}{}:
	default: // it is going to be read anyway
	}
}

var (
	errNoEnvoy = errors.New("no Envoy yet")
	errGone    = errors.New("the key is not known at Venice")
)

// call asks Venice's key API with the admin key.
func (m *Manager) call(ctx context.Context, v *config.Venice, method, query string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://egress"+v.BaseURL.Path+stake.Path+query, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Host = v.BaseURL.Host
	req.GetBody = nil // it is never sent twice
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
		return nil, errGone
	case resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices:
		return nil, fmt.Errorf("it was answered with status %d", resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, stake.MaxDocument+1))
	if err == nil && len(b) > stake.MaxDocument {
		err = fmt.Errorf("an answer of more than %d bytes", stake.MaxDocument)
	}
	return b, err
}
