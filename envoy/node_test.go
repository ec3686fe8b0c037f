package envoy

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"bardo.money/gateway/xds/state"
)

var whole = state.Node{
	ID: "gw-1", HTTP: "0.0.0.0:8080", HTTPS: "0.0.0.0:8443", EgressSocket: "/run/egress.sock", DemoSocket: "/run/demo.sock",
	ExtProc: "sidecar:18001", ExtProcServer: "gw-1", SecretDir: "/var/lib/bardo",
}

func TestANodeSaysWhatIsLocalToIt(t *testing.T) {
	o := options
	o.Node = whole
	got, ok, err := ParseNode(read(t, o).GetNode())
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if got != whole {
		t.Errorf("read %+v", got)
	}
}

func TestANodeWithoutWordsOfItsOwn(t *testing.T) {
	n, ok, err := ParseNode(read(t, options).GetNode())
	if err != nil || ok || n.ID != state.NodeID {
		t.Errorf("%+v, %v, %v", n, ok, err)
	}
}

func TestWhatIsWrongWithANode(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*state.Node)
		want   string
	}{
		"its name":                      {func(n *state.Node) { n.ID = "a b" }, "name"},
		"its listener":                  {func(n *state.Node) { n.HTTPS = "nowhere" }, "https listener"},
		"its egress socket":             {func(n *state.Node) { n.EgressSocket = "" }, "egress listener"},
		"its demo socket":               {func(n *state.Node) { n.DemoSocket = "demo.sock" }, "demo provider"},
		"its sidecar":                   {func(n *state.Node) { n.ExtProc = "" }, "ext_proc server"},
		"no files of its certificate":   {func(n *state.Node) { n.SecretDir = "" }, "absolute path"},
		"the name of its sidecar":       {func(n *state.Node) { n.ExtProcServer = "a b" }, "server name"},
		"a very long path of its files": {func(n *state.Node) { n.SecretDir = "/" + strings.Repeat("x", 1<<20) }, "absolute path"},
	} {
		o := options
		o.Node = whole
		tt.change(&o.Node)
		if _, err := Bootstrap(o); err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 1000 {
			t.Errorf("%s: error is %.1000v", name, err)
		}
	}
}

func TestFilesOfACertificateAreWatchedByEnvoy(t *testing.T) {
	o := options
	o.XDS = state.Peer{Address: "10.0.0.1:18000", TLS: &state.TLS{SecretDir: "/var/lib/bardo", ServerName: "control-plane"}}
	raw, err := Bootstrap(o)
	if err != nil {
		t.Fatal(err)
	}
	files, err := SecretFiles(state.ClusterXDS, Files{Cert: "/etc/c.pem", Key: "/etc/k.pem", CA: "/etc/ca.pem"})
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for name, b := range files {
		if !strings.Contains(string(raw), "/var/lib/bardo/"+name) {
			t.Errorf("the bootstrap does not name %s", name)
		}
		if !strings.Contains(string(b), "/etc/") {
			t.Errorf("%s names no file: %s", name, b)
		}
	}
	if !strings.Contains(string(raw), "TLSv1_3") {
		t.Error("an older TLS may be spoken")
	}
}

// FuzzParseNode: any node message is accepted as a whole or refused.
func FuzzParseNode(f *testing.F) {
	raw, err := protojson.Marshal(node(whole))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	f.Add(`{"id": "gw-1", "metadata": {"bardo": {"http": 1, "secrets": null}}}`)
	f.Add(`{"metadata": {"bardo": []}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c := &corev3.Node{}
		if protojson.Unmarshal([]byte(text), c) != nil {
			return
		}
		n, ok, err := ParseNode(c)
		if err != nil || !ok {
			return
		}
		again, _, err := ParseNode(node(n))
		if err != nil {
			t.Fatalf("%+v was taken, and is refused as it was written: %v", n, err)
		}
		if again != n {
			t.Errorf("%+v became %+v", n, again)
		}
	})
}
