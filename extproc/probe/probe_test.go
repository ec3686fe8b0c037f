package probe_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/probe"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// answers is an egress listener whose provider answers each key with this status.
type answers map[string]int

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	h := http.Header{"Etag": {`"1"`}}
	return &http.Response{StatusCode: a[key], Header: h, Body: io.NopCloser(strings.NewReader(`{"data":[],"error":{"message":"no"}}`)), Request: r}, nil
}

// client calls one provider, "p", with these keys.
func client(a answers, keys ...string) *probe.Client {
	p := &runtime.Provider{Adapter: openai.Adapter{}, Cluster: "p", Endpoint: provider.Endpoint{Provider: "p", Authority: "p.example"}}
	for _, k := range keys {
		p.Keys = append(p.Keys, secret.New(k))
	}
	p.Endpoint.Key = p.Keys[0]
	return &probe.Client{Config: &runtime.Config{Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"p": p})}, Egress: &http.Client{Transport: a}}
}

func TestAProbeTriesEachKey(t *testing.T) {
	for _, row := range []struct {
		statuses answers
		want     string
	}{
		{answers{"k1": 200, "k2": 401}, "nil"},
		{answers{"k1": 401, "k2": 200}, "nil"},
		{answers{"k1": 401, "k2": 401}, "refused"},
		{answers{"k1": 500, "k2": 200}, "other"},
		{answers{"k1": 429, "k2": 200}, "nil"},
	} {
		err := client(row.statuses, "k1", "k2").Probe(t.Context(), "p")
		got := "other"
		if _, refused := errors.AsType[*probe.CredentialRefused](err); refused {
			got = "refused"
		} else if err == nil {
			got = "nil"
		}
		if got != row.want {
			t.Errorf("%v: %v, want %s", row.statuses, err, row.want)
		}
	}
}

func TestAProviderThatIsNotConfiguredIsNotAsked(t *testing.T) {
	if err := client(nil, "k").Probe(t.Context(), "other"); !errors.Is(err, probe.ErrNotAsked) {
		t.Errorf("got %v", err)
	}
}

func TestAListOfModelsComesWithItsETag(t *testing.T) {
	got, err := client(answers{"k": 200}, "k").ListModels(t.Context(), "p", "")
	if err != nil || len(got.Body) == 0 || got.ETag != `"1"` || got.Unchanged {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := client(answers{"k": 304}, "k").ListModels(t.Context(), "p", `"1"`); err != nil || !got.Unchanged || got.ETag != `"1"` {
		t.Errorf("unchanged: got %+v, %v", got, err)
	}
	if _, err := client(answers{"k": 404}, "k").ListModels(t.Context(), "p", ""); err == nil {
		t.Error("a 404 is a list")
	}
}
