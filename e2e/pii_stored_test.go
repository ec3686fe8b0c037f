package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// planted is a value that a gateway masks. It is in every text of TestD37NothingMaskedIsOnTheDisk.
const planted = "planted.marker@mail.example.com"

// filesWith are the files below a directory that have a text, also as it is written in base64 or hexadecimal.
func filesWith(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // files of a running gateway come and go
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		if bytes.Contains(b, []byte(text)) || bytes.Contains(b, fmt.Appendf(nil, "%x", text)) {
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestD37NothingMaskedIsOnTheDisk: neither caches, sessions, deferred requests nor records have a value in clear, without any key in the configuration; and what was
// stored is there after a restart.
func TestD37NothingMaskedIsOnTheDisk(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Batches: true})
	opt := gateway.Options{
		Home:      proctest.Dir(t),
		Providers: []gateway.Provider{{ID: "openai", Fake: p}},
		Config: quick + `
pipeline: {hash: all, semantic: on, pii: {policy: mask}}
deferred: {gather: 1h, poll: 100ms}
store: {cache: "sqlite://$BARDO_HOME/cache.db"}
`,
	}
	g, err := gateway.Start(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	owner := g.CreateKey(t, "--name", "owner", "--balance-usd", "5")
	a := ask{dialect: fake.OpenAI, model: "gpt-4o-mini", say: "write to " + planted}
	call := a.call()
	call.Key = owner.Key
	first := g.Do(t, call)
	holder := placeholder.FindString(string(lastOf(t, p).Body))
	p.Behave(fake.Behaviour{Text: "It goes to " + holder + "."})
	a.say = "answer to " + planted
	call = a.call()
	call.Key = owner.Key
	second := g.Do(t, call)
	if first.Status != http.StatusOK || holder == "" || !strings.Contains(second.Body, planted) {
		t.Fatalf("%d, %s, %d, %s", first.Status, holder, second.Status, second.Body)
	}
	a.say = "think about " + planted
	dream := a.call("X-Bardo-Defer: 24h")
	dream.Key = owner.Key
	waits := g.Do(t, dream)
	var s sessionReply
	g.Do(t, gateway.Call{Path: "/v1/sessions", Key: owner.Key, Body: `{}`}).JSON(t, &s)
	at, note := "/v1/sessions/"+s.ID, `"mail `+planted+`"`
	entry := g.Do(t, gateway.Call{Method: http.MethodPut, Path: at + "/scratchpad/plan", Key: s.Key, Body: note})
	point := g.Do(t, gateway.Call{Path: at + "/checkpoints", Key: s.Key, Body: `{"of":` + note + `}`})
	doc := g.Do(t, gateway.Call{Method: http.MethodPut, Path: at + "/memory/plan", Key: s.Key, Body: `{"text":` + note + `}`})
	if waits.Status != http.StatusAccepted || entry.Status/100 != 2 || point.Status/100 != 2 || doc.Status/100 != 2 {
		t.Fatalf("%d %s, %d %s, %d %s, %d %s", waits.Status, waits.Body, entry.Status, entry.Body, point.Status, point.Body, doc.Status, doc.Body)
	}
	if with := filesWith(t, g.Home, planted); with != nil {
		t.Errorf("while it runs, %q have it in clear", with)
	}
	stop()
	if with := filesWith(t, opt.Home, planted); with != nil {
		t.Errorf("after its end, %q have it in clear", with)
	}
	for _, name := range []string{"cache.db", "sessions.db", "deferred.db", "bardo.db"} {
		if i, err := os.Stat(filepath.Join(opt.Home, name)); err != nil || i.Size() == 0 {
			t.Errorf("nothing was stored in %s: %v", name, err)
		}
	}
	if g, err = gateway.Start(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got := g.Do(t, gateway.Call{Path: at + "/scratchpad/plan", Key: s.Key}); got.Body != note {
		t.Errorf("after a restart the scratchpad has %d %s", got.Status, got.Body)
	}
	again := g.Do(t, call)
	if again.Header.Get("X-Bardo-Cache") != "hash" && again.Header.Get("X-Bardo-Cache") != "hit" || !strings.Contains(again.Body, planted) {
		t.Errorf("after a restart: %v, %s", again.Header, again.Body)
	}
}
