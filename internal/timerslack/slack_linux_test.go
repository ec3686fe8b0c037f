package timerslack_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"bardo.money/gateway/internal/timerslack"
)

func TestThreadsWakeLateAndOtherProgramsDoNot(t *testing.T) {
	for thread, slack := range slackOfThreads(t) {
		if slack != "1000000" {
			t.Errorf("thread %s has a slack of %s ns", thread, slack)
		}
	}
	var out strings.Builder
	c := exec.CommandContext(t.Context(), "cat", "/proc/self/timerslack_ns")
	c.Stdout = &out
	if err := timerslack.Start(c.Start); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil || out.String() != "50000\n" {
		t.Errorf("%v; another program has a slack of %s ns", err, out.String())
	}
	if own := slackOf(t, fmt.Sprint(os.Getpid())); own != "1000000" {
		t.Errorf("afterwards it is %s ns here", own)
	}
}

// slackOfThreads returns the slacks of this program's threads, by their ids.
func slackOfThreads(t *testing.T) map[string]string {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < 2 {
		t.Fatal(len(threads), err)
	}
	all := map[string]string{}
	for _, thread := range threads {
		all[thread.Name()] = slackOf(t, thread.Name())
	}
	return all
}

func slackOf(t *testing.T, thread string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + thread + "/timerslack_ns")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestAThreadIsGivenTheUsualSlack(t *testing.T) {
	err := timerslack.Start(func() error { // which locks the thread, and makes it late again at the end
		if err := timerslack.Start(func() error { return nil }); err != nil {
			return err
		}
		before := slackOf(t, fmt.Sprint(syscall.Gettid()))
		timerslack.Restore()
		if after := slackOf(t, fmt.Sprint(syscall.Gettid())); before != "1000000" || after != "50000" {
			t.Errorf("the slack is %s ns, then %s", before, after)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
