package envoy

import "testing"

func TestConnectionsFitIntoTheDescriptors(t *testing.T) {
	t.Parallel()
	for descriptors, want := range map[uint64]int64{0: 1, 200: 1, 256: 18, 1024: 274, 20_000: 6_600, 524_288: 50_000, 1 << 63: 50_000, 1<<64 - 1: 50_000} {
		if got := connections(descriptors); got != want || got*perConnection > max(int64(min(descriptors, 1<<40))-ownDescriptors, perConnection) {
			t.Errorf("%d descriptors: %d connections, want %d", descriptors, got, want)
		}
	}
}
