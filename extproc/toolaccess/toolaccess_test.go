package toolaccess

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/origin"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/oauth"
)

// view is a request to a path, with headers by name and value.
func view(cfg *runtime.Config, path string, headers ...string) *request.View {
	v := &request.View{Config: cfg, Head: stream.Head{Method: "POST", Path: path, Host: "localhost:8080", Peer: netip.MustParseAddr("127.0.0.1")}}
	v.Principal = policy.Principal{Account: "key_1"}
	for i := 0; i < len(headers); i += 2 {
		v.Head.Header = append(v.Head.Header, header.Field{Name: headers[i], Value: headers[i+1]})
	}
	return v
}

func kindOf(err error) fault.Kind {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok {
		return ""
	}
	return f.Kind
}

func TestWhoMayUseMCPServers(t *testing.T) {
	t.Parallel()
	servers := []mcp.Server{{Name: "one"}}
	broken := fault.Newf(fault.Unavailable, "the rules cannot be read")
	for _, row := range []struct {
		sentence  string
		cfg       runtime.Config
		principal policy.Principal
		origin    string
		want      fault.Kind
	}{
		{"a key", runtime.Config{MCP: servers}, policy.Principal{Account: "key_1"}, "", ""},
		{"without servers", runtime.Config{}, policy.Principal{Account: "key_1"}, "", fault.NotFound},
		{"with rules that cannot be read", runtime.Config{MCP: servers, Firewall: firewall.Layer{Broken: broken}}, policy.Principal{Account: "key_1"}, "", fault.Unavailable},
		{"without a key", runtime.Config{MCP: servers}, policy.Principal{Anonymous: true}, "", fault.InvalidAPIKey},
		{"without a key, where only the demo needs none", runtime.Config{MCP: servers, Keyless: runtime.KeylessDemo}, policy.Principal{Anonymous: true}, "", fault.InvalidAPIKey},
		{"without a key, where nobody needs one", runtime.Config{MCP: servers, Keyless: runtime.KeylessAnyone}, policy.Principal{Anonymous: true}, "", ""},
		{"a key that may only read", runtime.Config{MCP: servers}, policy.Principal{Account: "key_1", ReadOnly: true}, "", fault.KeyRestricted},
		{"a page of this machine", runtime.Config{MCP: servers}, policy.Principal{Account: "key_1"}, "http://localhost:6274", ""},
		{"a page of another origin", runtime.Config{MCP: servers}, policy.Principal{Account: "key_1"}, "https://evil.example", fault.KeyRestricted},
		{"a page of a listed origin", runtime.Config{MCP: servers, Origins: []string{"https://app.example"}, Known: origin.Rule{Pages: []string{"https://app.example"}}}, policy.Principal{Account: "key_1"}, "https://app.example", ""},
	} {
		v := view(&row.cfg, mcp.Path)
		if row.origin != "" {
			v.Head.Header = append(v.Head.Header, header.Field{Name: "origin", Value: row.origin})
		}
		v.Principal = row.principal
		if err := Check(v); kindOf(err) != row.want || (err == nil) != (row.want == "") {
			t.Errorf("%s: %v", row.sentence, err)
		}
	}
}

// TestARefusalSaysWhereToLogIn, if clients can, and only if that may help.
func TestARefusalSaysWhereToLogIn(t *testing.T) {
	t.Parallel()
	login := &runtime.Config{MCPAuth: &mcp.Authorization{Base: "https://gateway.example", Issuer: "https://login.example", Scopes: []string{"mcp"}}}
	unknown := fault.Newf(fault.InvalidAPIKey, "no such key")
	const where = `Bearer resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/mcp/one", scope="mcp"`
	for _, row := range []struct {
		sentence string
		cfg      *runtime.Config
		err      error
		header   []string
		want     string // the challenge; "" for none
	}{
		{"without a token", login, unknown, nil, where},
		{"with one that is not valid", login, unknown, []string{"authorization", "Bearer x"}, where + `, error="invalid_token"`},
		{"with one without a scope", login, fault.New(fault.KeyRestricted, "no scope", oauth.ErrScope), []string{"authorization", "Bearer x"}, where + `, error="insufficient_scope"`},
		{"that may not use the gateway", login, fault.Newf(fault.KeyRestricted, "not this user"), []string{"authorization", "Bearer x"}, ""},
		{"at a gateway without login", &runtime.Config{}, unknown, nil, ""},
		{"of another kind", login, errors.New("the client has disconnected"), nil, ""},
	} {
		err := Challenged(view(row.cfg, "/mcp/one", row.header...), row.err)
		c, ok := errors.AsType[*meter.Challenge](err)
		if ok != (row.want != "") || ok && (c.Header.Get("www-authenticate") != row.want || kindOf(err) != kindOf(row.err)) || !ok && !errors.Is(err, row.err) {
			t.Errorf("a client %s: %v, %+v", row.sentence, err, c)
		}
	}
}

func TestTheMetadataOfAnEndpoint(t *testing.T) {
	t.Parallel()
	if _, err := Metadata(view(&runtime.Config{}, mcp.MetadataPath+"/mcp")); kindOf(err) != fault.NotFound {
		t.Errorf("without login: %v", err)
	}
	b, err := Metadata(view(&runtime.Config{MCPAuth: &mcp.Authorization{Base: "https://gateway.example", Issuer: "https://login.example"}}, mcp.MetadataPath+"/mcp/one"))
	var got struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if err != nil || json.Unmarshal(b, &got) != nil || got.Resource != "https://gateway.example/mcp/one" || !slices.Equal(got.Servers, []string{"https://login.example"}) {
		t.Errorf("%s, %v", b, err)
	}
}

// TestTheRulesOfToolsAreThoseOfTheServerAndTheFirewall, and each decision is recorded, without a name that the server has not listed.
func TestTheRulesOfToolsAreThoseOfTheServerAndTheFirewall(t *testing.T) {
	t.Parallel()
	s := &mcp.Server{Name: "files", Allow: rule.Names{"read", "write"}, Deny: rule.Names{"write"}}
	cfg := &runtime.Config{Firewall: firewall.Layer{Rules: []firewall.Rule{
		{ID: "small", Tools: rule.Names{"mcp/files/read"}, Schema: schema(t, `{"required":["path"]}`)}, {ID: "mine", Keys: rule.Names{"key_2"}, Deny: rule.Names{"read"}},
	}}}
	for _, row := range []struct {
		key          policy.Account
		tool, args   string
		known        bool
		offered      bool
		rule, reason string // of the refusal
		recorded     string // the name of the tool
	}{
		{"key_1", "read", `{"path":"a"}`, true, true, "", "", "mcp/files/read"},
		{"key_1", "read", `{}`, true, true, "small", "schema", "mcp/files/read"},
		{"key_2", "read", `{"path":"a"}`, true, false, "mine", "denied", "mcp/files/read"},
		{"key_1", "write", `{}`, true, false, "mcp.servers.files", "denied", "mcp/files/write"},
		{"key_1", "delete", `{}`, true, false, "mcp.servers.files", "not_allowed", "mcp/files/delete"},
		{"key_1", "secret", `{}`, false, false, "mcp.servers.files", "not_allowed", "mcp/files/other"},
	} {
		v := view(cfg, mcp.Path)
		v.Principal.Account = row.key
		if row.known {
			if got := RulesFor(v).Offers(s, row.tool); got != row.offered {
				t.Errorf("%+v: offered %v", row, got)
			}
		}
		r := RulesFor(v)
		why := r.Refuses(s, row.tool, row.known, []byte(row.args), func() ([]byte, bool) { return nil, true })
		if (why != nil) != (row.rule != "") || why != nil && (why.Rule != row.rule || why.Reason != row.reason) {
			t.Errorf("%+v: %+v", row, why)
		}
		decision := policy.DecisionAllowed
		if row.rule != "" {
			decision = policy.DecisionRefused
		}
		all := r.Decisions()
		if len(all) != 1 || all[0].Decision != decision || all[0].Rule != row.rule || all[0].Reason != row.reason || all[0].Tool != row.recorded || all[0].Stage != policy.StageCall {
			t.Errorf("%+v: recorded as %+v", row, all)
		}
	}
}

func schema(t *testing.T, text string) *rule.Schema {
	t.Helper()
	s, err := rule.ParseSchema(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
