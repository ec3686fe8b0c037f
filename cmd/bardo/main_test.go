package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"

	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/polltest"
)

// update rewrites the golden files.
var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bardo": main})
}

// TestScripts runs the program as a user would. Each script has its own $BARDO_HOME and no other variables.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("BARDO_HOME", e.Cd+"/home")
			e.Setenv("ENVOY_BIN", envoytest.Binary(t))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"let": let, "sql": sqlCommand, "occupy": occupy, "freeport": freePort, "sqlfile": sqlFileCommand, "until": until, "lose": lose,
		},
	})
}

// let VAR FIELD sets a variable to a field of the last command's JSON output.
func let(ts *testscript.TestScript, _ bool, args []string) {
	var object map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &object))
	value, ok := object[args[1]].(string)
	if !ok {
		ts.Fatalf("the last command printed no %s: %s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], value)
}

// until REGEXP COMMAND… repeats a command until it succeeds and its output matches.
func until(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := regexp.Compile(args[0])
	ts.Check(err)
	maxWait := time.After(polltest.Patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-tick.C:
		case <-maxWait:
			ts.Fatalf("%v never printed %s, but %s: %v", args[1:], wanted, ts.ReadFile("stdout"), err)
		}
	}
}

// sql FILE STATEMENT changes a ledger directly.
func sqlCommand(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite3", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.ExecContext(context.Background(), args[1])
	ts.Check(err)
	ts.Check(db.Close())
}

// sqlfile LEDGER FILE changes a ledger directly by the statements in a file.
func sqlFileCommand(ts *testscript.TestScript, _ bool, args []string) {
	sqlCommand(ts, false, []string{args[0], ts.ReadFile(args[1])})
}

// occupy VAR listens on a port and sets the variable to its address.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// freeport VAR sets the variable to an unused port. It is neither an ephemeral port nor one of the end-to-end tests, which may run at the same time.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	const first, last = 10_000, 15_000
	for range 100 {
		port := strconv.Itoa(first + rand.IntN(last-first))
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue
		}
		ts.Check(l.Close())
		ts.Setenv(args[0], port)
		return
	}
	ts.Fatalf("no port is free")
}
