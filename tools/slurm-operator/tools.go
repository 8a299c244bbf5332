//go:build tools

// Package tools pins Slinky's Slurm operator, so that this folder's go.sum covers everything its build reads.
package tools

import (
	_ "github.com/SlinkyProject/slurm-operator/cmd/manager"
	_ "github.com/SlinkyProject/slurm-operator/cmd/webhook"
)
