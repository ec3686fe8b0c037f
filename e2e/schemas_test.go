package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// listedSchema is one of GET /v1/schemas.
type listedSchema struct {
	Object, Name string
	Subsystems   []string
	Strict       bool
	Default      any
	Schema       map[string]any
}

// TestPublishedSchemas: whoever has a key reads the schemas of answers, and the default of each.
func TestPublishedSchemas(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	var list struct {
		Object string
		Data   []listedSchema
	}
	got := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/schemas"})
	if err := json.Unmarshal([]byte(got.Body), &list); err != nil || got.Status != http.StatusOK || list.Object != "list" || len(list.Data) != 13 {
		t.Fatalf("%d, %v: %s", got.Status, err, got.Body)
	}
	for i := range list.Data {
		list.Data[i].check(t, g)
	}
	for path, want := range map[string]string{
		"/v1/schemas/HeartbeatDecison": `there is no schema \"HeartbeatDecison\"; did you mean HeartbeatDecision?`,
		"/schemas/Sonnet":              `there is no schema \"Sonnet\"; GET /v1/schemas lists them`,
	} {
		a := ask{dialect: fake.OpenAI, model: "m"}
		got := g.Do(t, gateway.Call{Method: http.MethodGet, Path: path})
		mustFail(t, a, got, http.StatusNotFound, "not_found")
		if !strings.Contains(got.Body, want) {
			t.Errorf("%s: %s", path, got.Body)
		}
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/schemas", NoKey: true}); got.Status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", got.Status)
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodHead, Path: "/v1/schemas/RiskAssessment"}); got.Status != http.StatusOK || got.Body != "" {
		t.Errorf("its head alone: %d %s", got.Status, got.Body)
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("a provider was asked %d times", n)
	}
}

// check compares the entry with the schema itself, which compiles and has a valid default.
func (s *listedSchema) check(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	got := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/schemas/" + s.Name})
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(got.Body))
	if err != nil || got.Status != http.StatusOK || got.Header.Get("content-type") != "application/json" {
		t.Fatalf("%s: %d %v, %v: %s", s.Name, got.Status, got.Header, err, got.Body)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("form:///"+s.Name, doc); err != nil {
		t.Fatal(err)
	}
	form, err := c.Compile("form:///" + s.Name)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	if s.Object != "schema" || form.Title != s.Name || s.Schema["title"] != s.Name || (form.Default == nil) != (s.Default == nil) || s.Subsystems == nil {
		t.Errorf("%s is listed as %+v", s.Name, s)
	}
	if s.Default != nil {
		if err := form.Validate(s.Default); err != nil {
			t.Errorf("the default of %s: %v", s.Name, err)
		}
	}
	if strict := s.Name == "CognitionPlan" || s.Name == "RiskRationale" || s.Name == "MemoryWriteIntent"; s.Strict != strict || strict && s.Default != nil {
		t.Errorf("%s: strict %t, default %v", s.Name, s.Strict, s.Default)
	}
}
