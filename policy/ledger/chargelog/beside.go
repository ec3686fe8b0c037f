package chargelog

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PrefixOf is what the names of an instance's charge log begin with.
func PrefixOf(store string, instance int64) string {
	return store + "." + strconv.FormatInt(instance, 10)
}

// Beside are the charge logs beside a store, by their instances.
func Beside(store string) (logs map[int64]string, err error) {
	dir, name := filepath.Split(store)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	logs = map[int64]string{}
	for _, e := range entries {
		rest, beside := strings.CutPrefix(e.Name(), name+".")
		number, segment := strings.CutSuffix(strings.TrimSuffix(rest, Suffix(1)), Suffix(0))
		segment = segment || strings.HasSuffix(rest, Suffix(1))
		if id, err := strconv.ParseInt(number, 10, 64); beside && segment && err == nil {
			logs[id] = PrefixOf(store, id)
		}
	}
	return logs, nil
}

// RefusedSuffix is the suffix of files with entries that the store refuses, one JSON object per line.
const RefusedSuffix = ".refused"

// Refused are the names of the files with refused entries.
func Refused(store string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(store))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(store)+".") && strings.HasSuffix(e.Name(), RefusedSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
