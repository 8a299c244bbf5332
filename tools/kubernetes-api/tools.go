//go:build tools

// Package tools pins the Kubernetes API server, so that this folder's go.sum covers everything its build reads.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
