package adminapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"bardo.money/gateway/cmd/bardo/adminapi"
)

// spec is the description, with the compiled schemas.
type spec struct {
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu   sync.Mutex
	seen map[string]bool // operations that were answered
}

const specURL = "https://bardo.invalid/openapi.json"

func readSpec(t *testing.T) *spec {
	t.Helper()
	b, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	if b, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(specURL, value); err != nil {
		t.Fatal(err)
	}
	return &spec{doc: doc, compiler: c, seen: map[string]bool{}}
}

// at returns the value at a path in the description; nil if there is none. References are followed.
func (s *spec) at(keys ...string) (value any, pointer string) {
	value = s.doc
	for _, k := range keys {
		m, ok := value.(map[string]any)
		if !ok {
			return nil, ""
		}
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(k)
		value = m[k]
		if ref, ok := reference(value); ok && k != "schema" {
			return s.at(append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), keys[slices.Index(keys, k)+1:]...)...)
		}
	}
	return value, pointer
}

// reference returns the target of a $ref.
func reference(value any) (ref string, ok bool) {
	m, _ := value.(map[string]any)
	ref, ok = m["$ref"].(string)
	return ref, ok
}

// described returns the described operations: method, path and operationId.
func (s *spec) described(t *testing.T) (all []string) {
	t.Helper()
	paths, _ := s.at("paths")
	for path, item := range paths.(map[string]any) {
		for method, op := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			all = append(all, strings.ToUpper(method)+" "+path+" "+op.(map[string]any)["operationId"].(string))
		}
	}
	slices.Sort(all)
	return all
}

var parameter = regexp.MustCompile(`\{[a-z]+\}`)

// find returns the described path that matches a request: the one with the fewest parameters.
func (s *spec) find(method, path string) (template string) {
	path, _, _ = strings.Cut(path, "?")
	paths, _ := s.at("paths")
	for p, item := range paths.(map[string]any) {
		like := regexp.MustCompile("^" + parameter.ReplaceAllString(p, "[^/]+") + "$")
		if _, ok := item.(map[string]any)[strings.ToLower(method)]; ok && like.MatchString(path) &&
			(template == "" || strings.Count(p, "{") < strings.Count(template, "{")) {
			template = p
		}
	}
	return template
}

// check validates a request and its answer against the description.
func (s *spec) check(t *testing.T, method, path, body string, a answer) {
	t.Helper()
	template := s.find(method, path)
	if template == "" {
		t.Errorf("%s %s is not described", method, path)
		return
	}
	op := []string{"paths", template, strings.ToLower(method)}
	status := "default"
	if a.status < http.StatusBadRequest {
		s.mu.Lock()
		s.seen[method+" "+template] = true
		s.mu.Unlock()
		if body != "" && body != "{}" {
			s.validate(t, body, append(op, "requestBody", "content", "application/json", "schema")...)
		}
		status = map[int]string{http.StatusOK: "200", http.StatusCreated: "201"}[a.status]
	}
	s.validate(t, a.body, append(op, "responses", status, "content", "application/json", "schema")...)
	s.parameters(t, template, method, path)
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%s %s: content type %q", method, path, got)
	}
}

// parameters requires each parameter of an accepted query to be described.
func (s *spec) parameters(t *testing.T, template, method, path string) {
	t.Helper()
	_, query, ok := strings.Cut(path, "?")
	if !ok {
		return
	}
	list, _ := s.at("paths", template, strings.ToLower(method), "parameters")
	described := map[string]bool{}
	params, _ := list.([]any)
	for _, p := range params {
		m := p.(map[string]any)
		if ref, ok := m["$ref"].(string); ok {
			v, _ := s.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			m = v.(map[string]any)
		}
		described[m["name"].(string)] = true
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); !described[name] && name != "dryrun" {
			t.Errorf("%s %s: the parameter %s is not described", method, path, name)
		}
	}
}

func (s *spec) validate(t *testing.T, text string, place ...string) {
	t.Helper()
	value, pointer := s.at(place...)
	if value == nil {
		t.Errorf("%v is not described", place)
		return
	}
	s.mu.Lock()
	schema, err := s.compiler.Compile(specURL + "#" + pointer)
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

// TestTheDescriptionIsComplete: each operation is described, and each described operation exists, under the same name.
func TestTheDescriptionIsComplete(t *testing.T) {
	have, want := adminapi.Operations(), readSpec(t).described(t)
	slices.Sort(have)
	for _, op := range have {
		if !slices.Contains(want, op) {
			t.Errorf("%s is not described", op)
		}
	}
	for _, op := range want {
		if !slices.Contains(have, op) {
			t.Errorf("%s is described and does not exist", op)
		}
	}
}

// TestEachDescribedPathAnswers, and the served description is the repository's file.
func TestEachDescribedPathAnswers(t *testing.T) {
	s := start(t)
	for _, op := range s.spec.described(t) {
		f := strings.Fields(op)
		a := s.send(f[0], adminapi.Prefix+parameter.ReplaceAllString(f[1], "x"), "")
		if a.status == http.StatusMethodNotAllowed || strings.Contains(a.body, "no such path") {
			t.Errorf("%s: %d %s", op, a.status, a.body)
		}
	}
	served := s.do(http.MethodGet, "/openapi.json", "", http.StatusOK)
	b, err := json.Marshal(s.spec.doc)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(served)
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("what is served differs from openapi.yaml: %v", err)
	}
	s.do(http.MethodGet, "/status", "", http.StatusOK)
}

// TestEverySchemaIsValid, and every reference resolves.
func TestEverySchemaIsValid(t *testing.T) {
	s := readSpec(t)
	schemas, _ := s.at("components", "schemas")
	for name := range schemas.(map[string]any) {
		if _, err := s.compiler.Compile(specURL + "#/components/schemas/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, err := json.Marshal(s.doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range regexp.MustCompile(`"\$ref":"#/([^"]+)"`).FindAllStringSubmatch(string(b), -1) {
		if v, _ := s.at(strings.Split(ref[1], "/")...); v == nil {
			t.Errorf("%s leads nowhere", ref[0])
		}
	}
}
