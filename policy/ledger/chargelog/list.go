package chargelog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PrefixOf is the prefix of an instance's charge log.
func PrefixOf(store string, instance int64) string {
	return store + "." + strconv.FormatInt(instance, 10)
}

// List returns the prefixes of the charge logs beside a store, by their instances.
func List(store string) (logs map[int64]string, err error) {
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

// AppendRefused appends an entry that the store refuses to the file of a log's prefix, with the error, and syncs it.
func AppendRefused(prefix string, e *Entry, why error) error {
	line, err := json.Marshal(map[string]any{"error": why.Error(), "change": e})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(prefix+RefusedSuffix, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", line)
	return errors.Join(err, f.Sync(), f.Close())
}

// Refused returns the names of the files with refused entries.
func Refused(store string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(store))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(store)+".") && strings.HasSuffix(e.Name(), RefusedSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
