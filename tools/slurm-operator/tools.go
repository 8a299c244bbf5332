//go:build tools

// Package tools pins Slinky's Slurm operator and its admission webhook, so that this folder's go.sum covers everything that
// their builds read.
package tools

import (
	_ "github.com/SlinkyProject/slurm-operator/cmd/manager"
	_ "github.com/SlinkyProject/slurm-operator/cmd/webhook"
)
