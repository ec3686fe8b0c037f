package deploy

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// composed loads docker-compose.yaml with all its profiles.
func composed(t testing.TB) *types.Project {
	t.Helper()
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  "../..",
		ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yaml", Content: []byte(read(t, "docker-compose.yaml"))}},
		Environment: types.Mapping{"OPENAI_API_KEY": "sk-example"},
	}, func(o *loader.Options) {
		o.SetProjectName("bardo", true)
		o.Profiles = []string{"*"}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var pinned = regexp.MustCompile(`:[0-9]+(\.[0-9]+)+(-[a-z0-9]+)?$|@sha256:[0-9a-f]{64}$`)

// Every image has a version, the Dockerfile's too, and nothing is published beyond this machine.
func TestComposeIsPinnedAndClosed(t *testing.T) {
	p := composed(t)
	from := regexp.MustCompile(`(?m)^FROM (\S+)`)
	for _, s := range p.Services {
		images := []string{s.Image}
		if s.Build != nil {
			images = nil
			for _, m := range from.FindAllStringSubmatch(s.Build.DockerfileInline, -1) {
				images = append(images, m[1])
			}
		}
		for _, image := range images {
			if !pinned.MatchString(image) {
				t.Errorf("%s: the image %q has no version", s.Name, image)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on %q", s.Name, port.Published, port.HostIP)
			}
		}
		if s.HealthCheck == nil || s.HealthCheck.Test[0] != "CMD" {
			t.Errorf("%s has no health check, or one that needs a shell", s.Name)
		}
		if s.StopGracePeriod != nil && time.Duration(*s.StopGracePeriod) < 35*time.Second {
			t.Errorf("%s is killed while it drains", s.Name)
		}
	}
}

// TestTheImageHasBothShapesOfTheDataPath: make puts libbardo.so beside bardo, and the image takes all that is there.
func TestTheImageHasBothShapesOfTheDataPath(t *testing.T) {
	build := exec.CommandContext(t.Context(), "make", "--dry-run", "build")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"/bin/bardo ./cmd/bardo\n", "-buildmode=c-shared", "/bin/libbardo.so ./cmd/bardo/libbardo\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("make build lacks %q: %s", want, out)
		}
	}
	for _, s := range composed(t).Services {
		if s.Build == nil {
			continue
		}
		for _, want := range []string{"RUN make tools models build ", "COPY --from=build /src/bin/ /usr/local/bin/\n"} {
			if !strings.Contains(s.Build.DockerfileInline, want) {
				t.Errorf("%s: the image lacks %q", s.Name, want)
			}
		}
	}
}

// What a profile adds stays out of the way of who does not name it.
func TestComposeProfiles(t *testing.T) {
	for _, row := range []struct {
		profiles []string
		want     []string
	}{
		{nil, []string{"control-plane", "envoy", "sidecar"}},
		{[]string{"redis", "postgres"}, []string{"control-plane", "envoy", "postgres", "redis", "sidecar"}},
	} {
		p, err := composed(t).WithProfiles(row.profiles)
		if err != nil {
			t.Fatal(err)
		}
		got := p.ServiceNames()
		slices.Sort(got)
		if !slices.Equal(got, row.want) {
			t.Errorf("profiles %v start %v, want %v", row.profiles, got, row.want)
		}
	}
}

// Every place that a configuration names is on a volume of each service that uses it, and every volume and port is used.
func TestComposePlacesMeet(t *testing.T) {
	p := composed(t)
	content := p.Configs["bardo"].Content
	places := regexp.MustCompile(`/(?:run|var/lib)/bardo`)
	for _, s := range p.Services {
		if s.Build == nil {
			continue
		}
		mounted := map[string]bool{}
		for _, v := range s.Volumes {
			mounted[v.Target] = true
			if !strings.Contains(s.Build.DockerfileInline, v.Target) {
				t.Errorf("%s: the image has no %s, which would be root's", s.Name, v.Target)
			}
		}
		for _, place := range places.FindAllString(strings.Join(s.Command, " "), -1) {
			if !mounted[place] {
				t.Errorf("%s: %q uses %s, which is no volume", s.Name, s.Command, place)
			}
		}
		if s.Name != "single" && !mounted["/run/bardo"] {
			t.Errorf("%s has no sockets", s.Name)
		}
		if s.Name != "envoy" && !mounted["/var/lib/bardo"] {
			t.Errorf("%s has no state", s.Name)
		}
		for _, port := range s.Ports {
			if !strings.Contains(content, fmt.Sprintf("0.0.0.0:%d", port.Target)) {
				t.Errorf("%s publishes port %d, on which nothing listens", s.Name, port.Target)
			}
		}
	}
	if !places.MatchString(content) {
		t.Errorf("no socket has a place in\n%s", content)
	}
}

// machineOf is a machine for a service: its volumes and its configuration, with a provider in it, on ports that are free.
func machineOf(t testing.TB, p *types.Project, s types.ServiceConfig, shared *machine, provider string) *machine {
	t.Helper()
	m := &machine{root: shared.root, places: slices.Clone(shared.places)}
	for _, v := range s.Volumes {
		m.putRaw(t, "/volume/"+v.Source+"/.keep", "", 0o600)
		m.means(v.Target, m.root+"/volume/"+v.Source)
	}
	for _, c := range s.Configs {
		at := "/" + s.Name + c.Target
		m.put(t, at, p.Configs[c.Source].Content+provider, 0o600)
		m.means(c.Target, m.root+at)
	}
	return m
}

// variables are those that a container has: the image's and the service's.
func variables(s types.ServiceConfig) []string {
	env := []string{"BARDO_HOME=/var/lib/bardo", "ENVOY_BIN=/usr/local/bin/envoy"} // the image's, which a test compares
	for name, value := range s.Environment {
		if value != nil && name != "OPENAI_API_KEY" { // no test calls a live provider
			env = append(env, name+"="+*value)
		}
	}
	return env
}

// healthy runs a service's health check until it succeeds.
func healthy(t testing.TB, m *machine, s types.ServiceConfig) {
	t.Helper()
	eventually(t, "the health of "+s.Name, func() bool {
		return m.command(t.Context(), s.HealthCheck.Test[1:], variables(s)).Run() == nil
	})
}

// onPorts gives the configuration's ports to a machine, and says where clients come in.
func onPorts(t testing.TB, m *machine) (base string) {
	t.Helper()
	for _, port := range []string{"9091", "9090", "8443", "8080"} {
		at := gateway.FreeAddress(t)
		m.means("127.0.0.1:"+port, at)
		m.means("0.0.0.0:"+port, at)
		base = "http://" + at + "/v1"
	}
	return base
}

// TestComposeRuns runs the three services: they find each other, print a key, serve, and stop in the order of their dependencies
// while a stream is under way, which comes to its end.
func TestComposeRuns(t *testing.T) {
	t.Parallel()
	p := composed(t)
	provider := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	section := fmt.Sprintf("providers: {custom: [{id: some, endpoints: [%q], api_key: %q, models: [{id: m}]}]}\n", provider.URL, provider.Key)
	shared := newMachine(t)
	base := onPorts(t, shared)
	shared.putRaw(t, "/usr/local/bin/bardo-drain", read(t, "docs/deploy/bardo-drain"), 0o755)

	machines, running := map[string]*machine{}, map[string]*process{}
	order := []string{"control-plane", "sidecar", "envoy"}
	for _, name := range order {
		s := p.Services[name]
		if !strings.Contains(s.Build.DockerfileInline, "ENV BARDO_HOME=/var/lib/bardo ENVOY_BIN=/usr/local/bin/envoy") {
			t.Errorf("%s: the image's variables are others", name)
		}
		machines[name] = machineOf(t, p, s, shared, section)
		running[name] = machines[name].start(t, name, s.Command, variables(s))
	}
	for _, name := range order {
		healthy(t, machines[name], p.Services[name])
	}
	key := running["sidecar"].firstKey(t)
	if url := shared.here("http://127.0.0.1:8080/v1"); !strings.Contains(running["sidecar"].log(), "export OPENAI_BASE_URL="+url) {
		t.Fatalf("not %s in\n%s", url, running["sidecar"].log())
	}
	mustAnswer(t, base, key, "m")

	provider.Behave(fake.Behaviour{Tokens: 40, Gap: 100 * time.Millisecond})
	underWay := stream(t, base, key, "m")
	eventually(t, "the stream's beginning", func() bool { return len(provider.Generations()) == 2 })
	envoy := p.Services["envoy"]
	machines["envoy"].run(t, envoy.PreStop[0].Command, variables(envoy))
	select {
	case got := <-underWay:
		if !got.whole() {
			t.Errorf("the stream broke: %v %s", got.err, got.body)
		}
	case <-time.After(polltest.Patience):
		t.Error("the drain was over before the stream")
	}
	for _, name := range []string{"envoy", "sidecar", "control-plane"} {
		running[name].stop(t, time.Duration(*p.Services[name].StopGracePeriod))
	}
}

// TestComposeRunsAsOne runs the single container, without any provider: the demo answers.
func TestComposeRunsAsOne(t *testing.T) {
	t.Parallel()
	p := composed(t)
	s := p.Services["single"]
	shared := newMachine(t)
	base := onPorts(t, shared)
	m := machineOf(t, p, s, shared, "")
	running := m.start(t, "single", s.Command, variables(s))
	healthy(t, m, s)
	mustAnswer(t, base, running.firstKey(t), "demo")
	running.stop(t, time.Duration(*s.StopGracePeriod))
}
