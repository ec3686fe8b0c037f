package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy/e2ee"
)

// scoped makes a session of a lab without prices; the reply has what it may use.
type scopedReply struct {
	ID         string    `json:"id"`
	Key        string    `json:"key"`
	Subsystems []string  `json:"subsystems"`
	Tools      *[]string `json:"tools"`
}

func scopedSession(t *testing.T, g *gateway.Gateway, key, body string) (s scopedReply) {
	t.Helper()
	got := g.Do(t, gateway.Call{Path: "/v1/sessions", Key: key, Body: body})
	if got.Status != http.StatusCreated {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	got.JSON(t, &s)
	return s
}

// TestE02ASessionUsesItsToolsAlone: in every format, streamed or not, with the session's key and with the account's: other tools are not offered, and a model
// that calls one all the same is not parsed, even where the operator's own rules are in shadow.
func TestE02ASessionUsesItsToolsAlone(t *testing.T) {
	t.Parallel()
	g, providers := guarded(t, "\npipeline: {firewall: {shadow: true, rules: [{id: all, allow: [get_price, transfer]}]}}\n")
	s := scopedSession(t, g, g.Key, `{"golem_id":"g7","tools":["get_price"]}`)
	if s.Tools == nil || !slices.Equal(*s.Tools, []string{"get_price"}) || len(s.Subsystems) != 0 {
		t.Errorf("%+v", s)
	}
	offered := func(a guardedAsk) string {
		all := providers[a.model].Generations()
		return string(all[len(all)-1].Body)
	}
	for _, a := range guardedAsks() {
		for _, own := range []bool{true, false} {
			c := a.call("")
			if c.Key = s.Key; !own {
				c.Key, c.Header = g.Key, append(c.Header, "X-Bardo-Session-Id: "+s.ID)
			}
			got := g.Do(t, c)
			h := parseAnswer(t, a, got)
			if got.Status != http.StatusOK || !slices.Equal(h.calls, []string{price}) || strings.Contains(got.Body, amount) {
				t.Errorf("%s, own key %t: %d %+v\n%s", a, own, got.Status, h, got.Body)
			}
			if body := offered(a); strings.Contains(body, "transfer") || !strings.Contains(body, "get_price") {
				t.Errorf("%s, own key %t: the provider saw %s", a, own, body)
			}
		}
	}
	a := guardedAsks()[0]
	none := scopedSession(t, g, s.Key, `{"tools":[]}`)
	c := a.call("")
	c.Key = none.Key
	if got := g.Do(t, c); got.Status != http.StatusOK || len(parseAnswer(t, a, got).calls) != 0 || strings.Contains(offered(a), "get_price") {
		t.Errorf("without tools: %d %s", got.Status, got.Body)
	}
	free := scopedSession(t, g, g.Key, `{}`)
	c.Key = free.Key
	if got := g.Do(t, c); got.Status != http.StatusOK || !slices.Equal(parseAnswer(t, a, got).calls, []string{transfers, price}) || free.Tools != nil {
		t.Errorf("with any tool: %d %s", got.Status, got.Body)
	}
}

// TestE02ASessionServesItsSubsystemsAlone, and a part of it has no more than it has.
func TestE02ASessionServesItsSubsystemsAlone(t *testing.T) {
	t.Parallel()
	l := runSessions(t)
	a := ask{dialect: fake.OpenAI}
	top := scopedSession(t, l.Gateway, l.owner.Key, `{"subsystems":["heartbeat_t1","risk"],"tools":["get_price","transfer"]}`)
	sub := scopedSession(t, l.Gateway, top.Key, `{"subsystems":["risk"],"tools":["transfer"]}`)
	same := scopedSession(t, l.Gateway, top.Key, `{}`)
	if !slices.Equal(same.Subsystems, top.Subsystems) || same.Tools == nil || !slices.Equal(*same.Tools, *top.Tools) {
		t.Errorf("a part without limits of its own is %+v", same)
	}
	for _, row := range []struct {
		key, subsystem string
		status         int
	}{
		{top.Key, "heartbeat_t1", http.StatusOK},
		{top.Key, "risk", http.StatusOK},
		{top.Key, "dream", http.StatusForbidden},
		{top.Key, "", http.StatusForbidden},
		{sub.Key, "risk", http.StatusOK},
		{sub.Key, "heartbeat_t1", http.StatusForbidden},
		{same.Key, "dream", http.StatusForbidden},
	} {
		header := []string{}
		if row.subsystem != "" {
			header = append(header, "X-Bardo-Subsystem: "+row.subsystem)
		}
		calls := len(l.p.Generations())
		switch got := l.say(t, row.key, "m", 10, header...); {
		case row.status == http.StatusOK && got.Status != http.StatusOK:
			t.Errorf("%+v: %d %s", row, got.Status, got.Body)
		case row.status != http.StatusOK:
			mustFail(t, a, got, row.status, "key_restricted")
			if n := len(l.p.Generations()) - calls; n != 0 {
				t.Errorf("%+v: %d requests reached the provider", row, n)
			}
		}
	}
	mustFail(t, a, l.say(t, l.owner.Key, "m", 10, "X-Bardo-Session-Id: "+top.ID), http.StatusForbidden, "key_restricted")
	for body, want := range map[string]string{
		`{"subsystems":["dream"]}`:              "parent session does not have",
		`{"tools":["get_price","withdraw"]}`:    "parent session does not have",
		`{"tools":["*"]}`:                       "without stars",
		`{"tools":[7]}`:                         "without stars",
		`{"tools":"get_price"}`:                 "without stars",
		`{"subsystems":["no_such_subsystem"]}`:  "a list of subsystems",
		`{"subsystems":[""]}`:                   "a list of subsystems",
		`{"tools":["a"],"tools":["get_price"]}`: "given twice",
	} {
		got := l.Do(t, gateway.Call{Path: "/v1/sessions", Key: top.Key, Body: body})
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, want) {
			t.Errorf("%s: %d %s, want 400 that says %q", body, got.Status, got.Body, want)
		}
	}
}

// TestE02ASessionOfCertainToolsSendsNothingSealed: nobody between the two ends could see which tools such a request has.
func TestE02ASessionOfCertainToolsSendsNothingSealed(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	pinned, err := e2ee.ParseKey(enclave.VaultKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	for tools, want := range map[string]int{`null`: http.StatusOK, `[]`: http.StatusForbidden, `["get_price"]`: http.StatusForbidden} {
		s := scopedSession(t, l.Gateway, l.Key, `{"tools":`+tools+`}`)
		sealed, _, err := e2ee.Seal(pinned, "sealed", 50, []byte(auction(false).Body))
		if err != nil {
			t.Fatal(err)
		}
		got := l.Do(t, gateway.Call{Path: "/v1/e2ee/chat/completions", Key: s.Key, Body: string(sealed), Header: []string{"content-type: application/json"}})
		if got.Status != want || want != http.StatusOK && !strings.Contains(got.Body, "key_restricted") {
			t.Errorf("tools %s: %d %s", tools, got.Status, got.Body)
		}
	}
	if n := len(l.vault.Opened()); n != 1 {
		t.Errorf("the enclave opened %d requests, want 1", n)
	}
}
