//go:build tools

// Package tools pins the Pulumi CLI, so that this folder's go.sum covers everything its build reads.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
