package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestD13WhatBardoRoutePrints compares golden tables, each with its own configuration and catalog (D-13).
func TestD13WhatBardoRoutePrints(t *testing.T) {
	fixtures, err := filepath.Abs(filepath.Join("..", "..", "policy", "resolve", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	goldens, err := filepath.Abs(filepath.Join("testdata", "route"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("BARDO_HOME", t.TempDir())
	t.Setenv("BARDO_INFERENCE_SPREAD_PCT", "20")
	for _, f := range []struct {
		name       string
		subsystems []string
	}{
		{"typical", []string{"heartbeat_t0", "heartbeat_t1", "heartbeat_t2", "risk", "dream", "daimon", "daimon_complex", "curator", "playbook", "operator", "death", "session_compact"}},
		{"minimal", []string{"heartbeat_t0", "heartbeat_t1", "heartbeat_t2", "risk", "dream", "daimon", "curator", "playbook", "operator", "death"}},
		{"full", []string{"heartbeat_t0", "heartbeat_t1", "heartbeat_t2", "risk", "dream", "daimon", "curator", "context", "playbook", "operator", "death", "session"}},
		{"ladders", []string{"dream", "risk", "context", "death"}},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Chdir(filepath.Join(fixtures, f.name)) // the catalog's directory
			var out strings.Builder
			for _, s := range f.subsystems {
				args := []string{
					"route", "-c", "config.yaml", "--subsystem", s, "--golem-id", "g1",
					"--input-tokens", "4000", "--max-tokens", "2000",
				}
				if s == "dream" || s == "death" {
					args = append(args, "--diem-available")
				}
				out.WriteString("$ bardo route --subsystem " + s + "\n")
				c := root()
				c.SetArgs(args)
				c.SetOut(&out)
				if err := c.Execute(); err != nil {
					out.WriteString("! " + err.Error() + "\n")
				}
				out.WriteByte('\n')
			}
			path := filepath.Join(goldens, f.name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("%s:\n--- got\n%s--- want\n%s", path, out.String(), want)
			}
		})
	}
}
