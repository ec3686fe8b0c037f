package deploy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// unit is a systemd unit: the values of each key, by section and key.
type unit map[string][]string

// directives are the keys that a unit of ours may have. systemd ignores one that it does not know, with a line in the journal; a slip of
// the pen would take away what it was to protect.
var directives = map[string][]string{
	"Unit": {"Description", "Documentation", "Wants", "After", "Conflicts"},
	"Service": {
		"Type", "User", "Group", "Environment", "EnvironmentFile", "ExecStartPre", "ExecStart", "ExecReload", "ExecStop", "Restart", "RestartSec",
		"KillMode", "TimeoutStopSec", "LimitNOFILE", "StateDirectory", "StateDirectoryMode", "RuntimeDirectory", "RuntimeDirectoryMode",
		"RuntimeDirectoryPreserve", "UMask", "NoNewPrivileges", "AmbientCapabilities", "CapabilityBoundingSet", "MemoryDenyWriteExecute",
		"ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
		"ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "RestrictAddressFamilies", "RestrictNamespaces",
		"RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "RemoveIPC", "SystemCallArchitectures", "SystemCallFilter",
	},
	"Install": {"WantedBy"},
}

// parseUnit reads a unit, and refuses what systemd would pass over.
func parseUnit(text string) (unit, error) {
	u, section := unit{}, ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			if section = line[1 : len(line)-1]; directives[section] == nil {
				return nil, fmt.Errorf("line %d: section %q", n, section)
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || !slices.Contains(directives[section], key) || strings.HasSuffix(value, `\`) {
			return nil, fmt.Errorf("line %d: %q is no directive of [%s]", n, line, section)
		}
		u[section+"."+key] = append(u[section+"."+key], value)
	}
	return u, nil
}

func FuzzParseUnit(f *testing.F) {
	f.Add("[Service]\nExecStart=/bin/true\n")
	f.Add("[Unit\n=")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseUnit(text)
		if (u == nil) == (err == nil) {
			t.Errorf("%q gives %v and %v", text, u, err)
		}
	})
}

// one is the only value of a key.
func (u unit) one(t testing.TB, key string) string {
	t.Helper()
	if len(u[key]) != 1 {
		t.Fatalf("%s has the values %q", key, u[key])
	}
	return u[key][0]
}

var quoted = regexp.MustCompile(`'[^']*'|\S+`)

// argv splits a command line as systemd does, as far as ours go: single quotes, and no escapes.
func argv(line string) []string {
	words := quoted.FindAllString(line, -1)
	for i, w := range words {
		words[i] = strings.Trim(w, "'")
	}
	return words
}

func units(t testing.TB) map[string]unit {
	t.Helper()
	files, err := filepath.Glob("../../docs/deploy/systemd/*.service")
	if err != nil || len(files) == 0 {
		t.Fatalf("no units: %v", err)
	}
	all := map[string]unit{}
	for _, file := range files {
		name := filepath.Base(file)
		if all[name], err = parseUnit(read(t, "docs/deploy/systemd/"+name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	return all
}

// hardening is what every unit must say.
var hardening = []string{
	"User=bardo", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "PrivateDevices=yes", "UMask=0077",
	"RestrictSUIDSGID=yes", "SystemCallFilter=@system-service", "Restart=always", "TimeoutStopSec=40s",
}

func TestUnitsSayWhatTheyMust(t *testing.T) {
	for name, u := range units(t) {
		for _, want := range hardening {
			key, value, _ := strings.Cut(want, "=")
			if got := u["Service."+key]; !slices.Equal(got, []string{value}) {
				t.Errorf("%s: %s is %q, want %s", name, key, got, value)
			}
		}
		if got := u.one(t, "Service.LimitNOFILE"); got != "65536" && got != "1048576" {
			t.Errorf("%s: %s files", name, got)
		}
		envoy := strings.Contains(strings.Join(u["Service.ExecStart"], " "), "envoy") || name == "bardo.service"
		if jit := u["Service.MemoryDenyWriteExecute"]; envoy != (len(jit) == 0) {
			t.Errorf("%s: MemoryDenyWriteExecute is %q, and Envoy compiles Lua", name, jit)
		}
		for key, values := range u {
			if !strings.HasPrefix(key, "Service.Exec") {
				continue
			}
			for _, v := range values {
				if !filepath.IsAbs(argv(v)[0]) {
					t.Errorf("%s: %s=%s: not an absolute path", name, key, v)
				}
			}
		}
	}
	if got := units(t)["bardo.service"].one(t, "Service.KillMode"); got != "mixed" {
		t.Errorf("KillMode=%s would end Envoy before its streams", got)
	}
}

// TestSystemdTakesTheUnits asks systemd, where it is installed. Programs are looked for where this machine has them.
func TestSystemdTakesTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if errors.Is(err, exec.ErrNotFound) {
		t.Log("there is no systemd-analyze here: the parser of this package has looked alone")
		return
	}
	m := newMachine(t)
	var files []string
	for name := range units(t) {
		text := strings.ReplaceAll(read(t, "docs/deploy/systemd/"+name), "/usr/local/bin/bardo-drain", "/bin/true")
		m.putRaw(t, "/"+name, strings.ReplaceAll(text, "/usr/local/bin", m.root+"/usr/local/bin"), 0o600)
		files = append(files, m.root+"/"+name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, analyze, append([]string{"verify", "--man=no"}, files...)...)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// service is a unit on a machine.
type service struct {
	unit
	name    string
	machine *machine
	process *process
}

// variables are the unit's own, and those of its files.
func (s *service) variables(t testing.TB) []string {
	t.Helper()
	var env []string
	for _, line := range s.unit["Service.Environment"] {
		env = append(env, strings.Fields(line)...)
	}
	for _, file := range s.unit["Service.EnvironmentFile"] {
		b, err := os.ReadFile(s.machine.here(strings.TrimPrefix(file, "-")))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				env = append(env, line)
			}
		}
	}
	return env
}

// start does what systemd does, but for users and namespaces.
func (m *machine) service(t testing.TB, name string, u unit) *service {
	t.Helper()
	s := &service{unit: u, name: name, machine: m}
	for _, line := range u["Service.ExecStartPre"] {
		m.run(t, argv(line), s.variables(t))
	}
	s.process = m.start(t, name, argv(u.one(t, "Service.ExecStart")), s.variables(t))
	return s
}

// stop runs ExecStop, then ends the process, within the unit's time.
func (s *service) stop(t testing.TB) {
	t.Helper()
	for _, line := range s.unit["Service.ExecStop"] {
		s.machine.run(t, argv(line), s.variables(t))
	}
	within, err := time.ParseDuration(s.one(t, "Service.TimeoutStopSec"))
	if err != nil {
		t.Fatal(err)
	}
	s.process.stop(t, within)
}
