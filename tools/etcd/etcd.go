//go:build tools

// Package tools pins etcd, so that this folder's go.sum covers everything its build reads.
package tools

import _ "go.etcd.io/etcd/server/v3"
