package cache_test

import (
	"testing"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/cachetest"
	"bardo.money/gateway/extproc/cache/semantic"
)

func TestTheStoreDoesWhatAStoreMust(t *testing.T) {
	cachetest.Run(t, func(t *testing.T, bytes int64) *cachetest.Gateway {
		t.Helper()
		ix := semantic.New(0)
		return &cachetest.Gateway{Store: cache.New(cache.Options{MaxBytes: bytes, Removed: ix.Remove}), Index: ix}
	})
}
