package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/mtlstest"
)

// cloudConfig is what this test reads of cloud-init.yaml. The schema has looked at all of it.
type cloudConfig struct {
	Files []struct {
		Path, Permissions, Owner, Content string
		Defer                             bool
	} `yaml:"write_files"`
	Run [][]string `yaml:"runcmd"`
}

func cloud(t testing.TB) (c cloudConfig) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "docs/deploy/cloud-init.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The schema is cloud-init's own (its repository, cloudinit/config/schemas; Apache-2.0 or GPL-3.0).
func TestCloudInitFollowsItsSchema(t *testing.T) {
	text := read(t, "docs/deploy/cloud-init.yaml")
	if !strings.HasPrefix(text, "#cloud-config\n") {
		t.Error("the first line is what tells cloud-init that this is its configuration")
	}
	b, err := os.ReadFile("testdata/schema-cloud-config-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("cloud-config.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("cloud-config.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(asJSON(t, text)); err != nil {
		t.Error(err)
	}
	if schema.Validate(asJSON(t, strings.Replace(text, "permissions:", "permission:", 1))) == nil {
		t.Error("the schema takes a key that does not exist")
	}
}

// asJSON is a YAML document with the types that JSON has.
func asJSON(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// embedded are the files of docs/deploy that cloud-init.yaml brings, by where it puts them.
var embedded = map[string]string{
	"/etc/bardo/bardo.env":                      "bardo.env",
	"/etc/bardo/bardo.yaml":                     "pair.yaml",
	"/usr/local/sbin/bardo-install":             "install",
	"/usr/local/bin/bardo-drain":                "bardo-drain",
	"/usr/local/bin/golem-env":                  "golem-env",
	"/etc/systemd/system/bardo-sidecar.service": "systemd/bardo-sidecar.service",
	"/etc/systemd/system/bardo-envoy.service":   "systemd/bardo-envoy.service",
}

func TestCloudInitBringsTheFilesOfThisFolder(t *testing.T) {
	found := 0
	for _, f := range cloud(t).Files {
		source, ok := embedded[f.Path]
		if !ok {
			continue
		}
		found++
		if f.Content != read(t, "docs/deploy/"+source) {
			t.Errorf("%s is not docs/deploy/%s", f.Path, source)
		}
		if private := strings.HasSuffix(f.Path, ".env"); private != (f.Permissions == "0640") {
			t.Errorf("%s has the mode %s", f.Path, f.Permissions)
		}
	}
	if found != len(embedded) {
		t.Errorf("%d of %d files", found, len(embedded))
	}
}

// golemMachine is what cloud-init makes of a machine, with certificates and places that exist.
func golemMachine(t testing.TB, plane, provider string) *machine {
	t.Helper()
	m := newMachine(t)
	m.means("/usr/local/sbin", m.root+"/usr/local/sbin")
	m.means("/etc/golem", m.root+"/etc/golem")
	m.means("bardo-control.internal:18000", plane)
	m.means("0.0.0.0:18000", plane)
	m.means("openai: {", `openai: {base_url: "`+provider+`", `)
	for _, port := range []string{"9091", "9090", "8080"} {
		m.means("127.0.0.1:"+port, gateway.FreeAddress(t))
	}
	if err := os.MkdirAll(m.root+"/etc/bardo/tls", 0o700); err != nil {
		t.Fatal(err)
	}
	return m
}

// certify gives a machine the certificate that its configuration names.
func certify(t testing.TB, m *machine, ca *mtlstest.Authority, name string) {
	t.Helper()
	f, err := ca.Write(m.root, name, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{f.Cert: "node.pem", f.Key: "node-key.pem", f.CA: "ca.pem"} {
		if err := os.Rename(from, m.root+"/etc/bardo/tls/"+to); err != nil {
			t.Fatal(err)
		}
	}
}

// mode is a file's mode as cloud-init reads it.
func mode(t testing.TB, s string) os.FileMode {
	t.Helper()
	n, err := strconv.ParseUint(s, 8, 12)
	if err != nil {
		t.Fatal(err)
	}
	return os.FileMode(n)
}

// TestAGolemsMachineServesIt brings up a control plane from its unit, and beside it a machine from cloud-init.yaml: the programs are
// installed by their digests, the agent gets its variables, the units serve it, and they stop without breaking a stream.
func TestAGolemsMachineServesIt(t *testing.T) {
	t.Parallel()
	provider := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "replace-me"})
	ca, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	all, at := units(t), gateway.FreeAddress(t)
	control := golemMachine(t, at, provider.URL)
	certify(t, control, ca, "control-plane")
	control.put(t, "/etc/bardo/bardo.yaml", read(t, "docs/deploy/control-plane.yaml"), 0o600)
	control.put(t, "/etc/bardo/bardo.env", "", 0o600)
	plane := control.service(t, "bardo-xds", all["bardo-xds.service"])

	vm := golemMachine(t, at, provider.URL)
	c := cloud(t)
	for _, f := range c.Files {
		if strings.Contains(f.Path, "/tls/") {
			continue // placeholders
		}
		put := vm.put
		if path.Base(path.Dir(f.Path)) == "system" {
			put = vm.putRaw // units are read as they are
		}
		put(t, f.Path, f.Content, mode(t, f.Permissions))
	}
	certify(t, vm, ca, "golem-1")
	installPrograms(t, vm)
	agent := agentVariables(t, vm, c)

	sidecar := vm.service(t, "bardo-sidecar", all["bardo-sidecar.service"])
	envoy := vm.service(t, "bardo-envoy", all["bardo-envoy.service"])
	base, key := agent["OPENAI_BASE_URL"], agent["OPENAI_API_KEY"]
	eventually(t, "an answer to the agent", func() bool {
		status, _, err := chat(t.Context(), base, key, "gpt-4o", false)
		return err == nil && status == 200
	})
	if strings.Contains(sidecar.process.log(), "bardo_sk_") {
		t.Error("a key is in the journal")
	}
	provider.Behave(fake.Behaviour{Tokens: 40, Gap: 100 * time.Millisecond})
	before := len(provider.Generations())
	underWay := stream(t, base, key, "gpt-4o")
	eventually(t, "the stream's beginning", func() bool { return len(provider.Generations()) > before })
	for _, s := range []*service{envoy, sidecar} { // After= makes systemd stop them in this order
		s.stop(t)
	}
	if got := <-underWay; !got.whole() {
		t.Errorf("the stream broke: %v %s", got.err, got.body)
	}
	plane.stop(t)
	if after := all["bardo-envoy.service"].one(t, "Unit.After"); !strings.Contains(after, "bardo-sidecar.service") {
		t.Errorf("Envoy starts after %s, and so does not stop before its sidecar", after)
	}
}

// installPrograms runs the script that brings the programs, from files, and sees that it takes nothing that it was not told.
func installPrograms(t testing.TB, vm *machine) {
	t.Helper()
	bardo, envoy := gateway.Programs(t)
	variables := []string{
		"BARDO_URL=" + bardo, "BARDO_SHA256=" + digest(t, bardo), "ENVOY_URL=" + envoy, "ENVOY_SHA256=" + digest(t, envoy),
		"BARDO_BIN_DIR=/usr/local/bin",
	}
	script := []string{"/usr/local/sbin/bardo-install"}
	for _, name := range []string{"bardo", "envoy"} {
		if err := os.Remove(vm.root + "/usr/local/bin/" + name); err != nil {
			t.Fatal(err)
		}
	}
	wrong := append(slices.Clone(variables), "ENVOY_SHA256="+strings.Repeat("0", 64))
	if out, err := vm.command(t.Context(), script, wrong).CombinedOutput(); err == nil || exists(vm.root+"/usr/local/bin/bardo") {
		t.Errorf("a program with another digest was installed: %s", out)
	}
	open := append(slices.Clone(variables), "BARDO_URL=http://127.0.0.1/bardo")
	if out, err := vm.command(t.Context(), script, open).CombinedOutput(); err == nil || !strings.Contains(string(out), "expected an https address") {
		t.Errorf("a program came in clear text: %v %s", err, out)
	}
	vm.run(t, script, variables)
	if digest(t, vm.root+"/usr/local/bin/envoy") != digest(t, envoy) {
		t.Error("another Envoy was installed")
	}
	module := filepath.Join(t.TempDir(), "libbardo.so")
	if err := os.WriteFile(module, []byte("a module"), 0o600); err != nil {
		t.Fatal(err)
	}
	if exists(vm.root + "/usr/local/bin/libbardo.so") {
		t.Error("a module that nobody named was installed")
	}
	vm.run(t, script, append(variables, "BARDO_MODULE_URL="+module, "BARDO_MODULE_SHA256="+digest(t, module)))
	if digest(t, vm.root+"/usr/local/bin/libbardo.so") != digest(t, module) {
		t.Error("another module was installed")
	}
}

func digest(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// agentVariables runs the script that makes the agent's key, as runcmd says but for the user, twice.
func agentVariables(t testing.TB, vm *machine, c cloudConfig) map[string]string {
	t.Helper()
	i := slices.IndexFunc(c.Run, func(argv []string) bool { return strings.Contains(strings.Join(argv, " "), "golem-env") })
	if i < 0 {
		t.Fatal("nothing makes the agent's key")
	}
	line := slices.Clone(c.Run[i])
	line[len(line)-1] = strings.Replace(line[len(line)-1], "runuser -u bardo -- ", "", 1)
	vm.run(t, line, nil)
	first := fileOf(t, vm, "/var/lib/bardo/golem.env")
	vm.run(t, line, nil)
	if again := fileOf(t, vm, "/var/lib/bardo/golem.env"); again != first {
		t.Error("a second run makes another key")
	}
	if fi, err := os.Stat(vm.root + "/var/lib/bardo/golem.env"); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the agent's key can be read by others: %v %v", fi.Mode(), err)
	}
	values := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.+)$`).FindAllStringSubmatch(first, -1) {
		values[m[1]] = m[2]
	}
	if len(values) != 4 || values["ANTHROPIC_BASE_URL"]+"/v1" != values["OPENAI_BASE_URL"] || values["ANTHROPIC_API_KEY"] != values["OPENAI_API_KEY"] ||
		!printedKey.MatchString(values["OPENAI_API_KEY"]) {
		t.Fatalf("the agent gets %q", first)
	}
	return values
}

func fileOf(t testing.TB, m *machine, path string) string {
	t.Helper()
	b, err := os.ReadFile(m.root + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTheWholeGatewayAsAUnit starts bardo.service: one program, with Envoy as its child, on single.yaml.
func TestTheWholeGatewayAsAUnit(t *testing.T) {
	t.Parallel()
	provider := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "replace-me"})
	m := newMachine(t)
	m.means("openai: {", `openai: {base_url: "`+provider.URL+`", `)
	for _, port := range []string{"9090", "8443", "8080"} {
		m.means("127.0.0.1:"+port, gateway.FreeAddress(t))
	}
	m.put(t, "/etc/bardo/bardo.yaml", read(t, "docs/deploy/single.yaml"), 0o600)
	m.put(t, "/etc/bardo/bardo.env", read(t, "docs/deploy/bardo.env"), 0o600)
	s := m.service(t, "bardo", units(t)["bardo.service"])
	eventually(t, "run.json", func() bool { return exists(m.root + "/var/lib/bardo/run.json") })
	key := s.process.firstKey(t)
	mustAnswer(t, "http://"+m.here("127.0.0.1:8080")+"/v1", key, "gpt-4o")
	s.stop(t)
}
