package envoy

import (
	"os"
	"strings"
	"testing"
)

func TestThePinnedVersionIsTheInstalledOne(t *testing.T) {
	tools, err := os.ReadFile("../Tools.mk")
	if err != nil {
		t.Fatal(err)
	}
	if v := PinnedVersion(); v == "" || !strings.Contains(string(tools), "\nENVOY_VERSION := "+v+"\n") {
		t.Errorf("the pinned version is %q, and Tools.mk has another one", v)
	}
}
