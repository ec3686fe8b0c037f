package adminapi

// Operations are all operations: method, path and name.
func Operations() (all []string) {
	for _, op := range operations() {
		all = append(all, op.method+" "+op.path+" "+op.name)
	}
	return all
}
