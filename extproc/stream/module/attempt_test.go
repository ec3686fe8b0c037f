package module

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"bardo.money/gateway/xds/state"
)

// judged returns the status of a text in one piece.
func judged(text string) string {
	return judge(func(at, n int) []byte {
		at = min(at, len(text))
		return []byte(text[at:min(at+n, len(text))])
	})
}

// TestAnswersAreJudgedAsByTheScript has the cases of xds/snapshot/attempt.lua, which does the same for ext_proc.
func TestAnswersAreJudgedAsByTheScript(t *testing.T) {
	blank := strings.Repeat("\n", 1000)
	for text, want := range map[string]string{
		"":                                     "502",
		" \t\r\n\v\f":                          "502",
		blank:                                  "502",
		"<html>":                               "502",
		blank + "<html>":                       "502",
		`{}`:                                   "",
		blank + `{"id": "x"}`:                  "",
		`plain text`:                           "",
		`[{"error": {}}]`:                      "",
		`{"error": null}`:                      "",
		`{"error": false}`:                     "",
		`{"errors": {}}`:                       "",
		`{"id": 1, "error": {}}`:               "",
		`{"type": "message"}`:                  "",
		`{"object": "list"}`:                   "",
		`{"error": {}}`:                        "502",
		`{"error": "failed"}`:                  "502",
		`{"error":{"code":429}}`:               "429",
		`{"error":{"code":"503"}}`:             "503",
		`{"error":{"code":200}}`:               "502",
		`{"error":{"code":4290}}`:              "502",
		`{"error":{"code":null}}`:              "502",
		"{\v\"error\"\v:\v{\"code\"\v:\v401}}": "401",
		blank + `{"error":{"code":"rate_limit_exceeded"}}`:                           "429",
		`{"error":{"type":"invalid_request_error","code":"model_not_found"}}`:        "404",
		`{"error":{"type":"invalid_request_error","code":"unknown"}}`:                "400",
		`{"error":{"code":"unknown","details":[{"code":403}]}}`:                      "403",
		`{"error":{"code":"unknown","status":"UNAVAILABLE"}}`:                        "503",
		`{"error":{"message":"x","type":"unknown"}}`:                                 "502",
		`{"type":"error","error":{"type":"overloaded_error"}}`:                       "529",
		`{"object":"error","type":"BadRequestError","code":400}`:                     "400",
		`{"error":{"message":"` + strings.Repeat("x", 4000) + `","code":"timeout"}}`: "504",
		`{"error":{"message":"` + strings.Repeat("x", 4096) + `","code":"timeout"}}`: "502",
		`{` + strings.Repeat(" ", 36) + `"error": {"code": 404}}`:                    "404",
		`{` + strings.Repeat(" ", 48) + `"error": {"code": 404}}`:                    "",
	} {
		if got := judged(text); got != want {
			t.Errorf("%.80q is %q, want %q", text, got, want)
		}
	}
}

// TestTheScriptKnowsTheSameStatuses compares the table with that of xds/snapshot/attempt.lua.
func TestTheScriptKnowsTheSameStatuses(t *testing.T) {
	script, err := os.ReadFile("../../../xds/snapshot/attempt.lua")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(script), "local statuses = {")
	table, _, _ = strings.Cut(table, "\n}")
	want := map[string]string{}
	for _, m := range regexp.MustCompile(`(\w+) = "(\d+)"`).FindAllStringSubmatch(table, -1) {
		want[m[1]] = m[2]
	}
	if !maps.Equal(statuses, want) {
		t.Errorf("%v, the script has %v", statuses, want)
	}
}

func TestRetryClustersAreKnownByTheirNames(t *testing.T) {
	if got := state.RetryCluster("p"); got != "p"+retrySuffix {
		t.Errorf("%s does not end with %s", got, retrySuffix)
	}
}
