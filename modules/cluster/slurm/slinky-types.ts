/**
 * Generated from Slinky's CRDs by tools/slinky-types.ts: do not edit.
 */
import type { Container, PersistentVolumeClaim, PodSpec, ServiceSpec } from "kubernetes-types/core/v1.js";
import type { ObjectMeta } from "kubernetes-types/meta/v1.js";

export interface AccountingSpec {
  external?: boolean;
  externalConfig?: {
    host: string;
    port: number;
  };
  extraConf?: string;
  jwksKeyRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  jwtHs256KeyRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  jwtKeyRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  service?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    nodePort?: number;
    port?: number;
    spec?: Partial<ServiceSpec>;
  };
  slurmKeyRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  slurmdbd?: Partial<Container>;
  storageConfig?: {
    database?: string;
    host: string;
    passwordKeyRef: {
      key: string;
      name?: string;
      optional?: boolean;
    };
    port?: number;
    username?: string;
  };
  template?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    spec?: Partial<PodSpec>;
  };
}

/** @public */
export interface Accounting {
  apiVersion: "slinky.slurm.net/v1beta1";
  kind: "Accounting";
  metadata: ObjectMeta & { name: string; namespace: string };
  spec: AccountingSpec;
}

export interface ControllerSpec {
  accountingRef?: {
    name?: string;
    namespace?: string;
  };
  clusterName?: string;
  configFileRefs?: {
    name?: string;
    namespace?: string;
  }[];
  epilogScriptRefs?: {
    name?: string;
    namespace?: string;
  }[];
  epilogSlurmctldScriptRefs?: {
    name?: string;
    namespace?: string;
  }[];
  external?: boolean;
  externalConfig?: {
    host: string;
    port: number;
  };
  extraConf?: string;
  jwksKeyRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  jwtHs256KeyRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  jwtKeyRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  logfile?: Partial<Container>;
  metrics?: {
    enabled?: boolean;
    serviceMonitor?: {
      annotations?: {
        [k: string]: string;
      };
      enabled?: boolean;
      endpoints?: {
        interval?: string;
        path: string;
        scrapeTimeout?: string;
      }[];
      interval?: string;
      labels?: {
        [k: string]: string;
      };
      scrapeTimeout?: string;
    };
  };
  persistence?: {
    accessModes?: string[];
    dataSource?: {
      apiGroup?: string;
      kind: string;
      name: string;
    };
    dataSourceRef?: {
      apiGroup?: string;
      kind: string;
      name: string;
      namespace?: string;
    };
    enabled: boolean;
    existingClaim?: string;
    resources?: {
      limits?: {
        [k: string]: number | string;
      };
      requests?: {
        [k: string]: number | string;
      };
    };
    selector?: {
      matchExpressions?: {
        key: string;
        operator: string;
        values?: string[];
      }[];
      matchLabels?: {
        [k: string]: string;
      };
    };
    storageClassName?: string;
    volumeAttributesClassName?: string;
    volumeMode?: string;
    volumeName?: string;
  };
  prologScriptRefs?: {
    name?: string;
    namespace?: string;
  }[];
  prologSlurmctldScriptRefs?: {
    name?: string;
    namespace?: string;
  }[];
  reconfigure?: Partial<Container>;
  service?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    nodePort?: number;
    port?: number;
    spec?: Partial<ServiceSpec>;
  };
  slurmKeyRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  slurmctld?: Partial<Container>;
  template?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    spec?: Partial<PodSpec>;
  };
}

/** @public */
export interface Controller {
  apiVersion: "slinky.slurm.net/v1beta1";
  kind: "Controller";
  metadata: ObjectMeta & { name: string; namespace: string };
  spec: ControllerSpec;
}

export interface LoginSetSpec {
  controllerRef: {
    name?: string;
    namespace?: string;
  };
  extraSshdConfig?: string;
  initconf?: Partial<Container>;
  login?: Partial<Container>;
  replicas?: number;
  rootSshAuthorizedKeys?: string;
  service?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    nodePort?: number;
    port?: number;
    spec?: Partial<ServiceSpec>;
  };
  sssdConfRef: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  strategy?: {
    rollingUpdate?: {
      maxSurge?: number | string;
      maxUnavailable?: number | string;
    };
    type?: string;
  };
  template?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    spec?: Partial<PodSpec>;
  };
}

/** @public */
export interface LoginSet {
  apiVersion: "slinky.slurm.net/v1beta1";
  kind: "LoginSet";
  metadata: ObjectMeta & { name: string; namespace: string };
  spec: LoginSetSpec;
}

export interface NodeSetSpec {
  controllerRef: {
    name?: string;
    namespace?: string;
  };
  extraConf?: string;
  logfile?: Partial<Container>;
  minReadySeconds?: number;
  ordinalPadding?: number;
  partition?: {
    config?: string;
    enabled: boolean;
  };
  persistentVolumeClaimRetentionPolicy?: {
    whenDeleted?: "Retain" | "Delete";
    whenScaled?: "Retain" | "Delete";
  };
  replicas?: number;
  revisionHistoryLimit?: number;
  scalingMode?: "DaemonSet" | "StatefulSet";
  slurmd?: Partial<Container>;
  ssh?: {
    enabled: boolean;
    extraSshdConfig?: string;
    sssdConfRef: {
      key: string;
      name?: string;
      optional?: boolean;
    };
  };
  taintKubeNodes?: boolean;
  template?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    spec?: Partial<PodSpec>;
  };
  updateStrategy?: {
    rollingUpdate?: {
      maxUnavailable?: number | string;
    };
    type?: "RollingUpdate" | "OnDelete";
  };
  volumeClaimTemplates?: PersistentVolumeClaim[];
  workloadDisruptionProtection?: boolean;
}

/** @public */
export interface NodeSet {
  apiVersion: "slinky.slurm.net/v1beta1";
  kind: "NodeSet";
  metadata: ObjectMeta & { name: string; namespace: string };
  spec: NodeSetSpec;
}

export interface RestApiSpec {
  controllerRef: {
    name?: string;
    namespace?: string;
  };
  replicas?: number;
  service?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    nodePort?: number;
    port?: number;
    spec?: Partial<ServiceSpec>;
  };
  slurmrestd?: Partial<Container>;
  template?: {
    metadata?: {
      annotations?: {
        [k: string]: string;
      };
      labels?: {
        [k: string]: string;
      };
    };
    spec?: Partial<PodSpec>;
  };
}

/** @public */
export interface RestApi {
  apiVersion: "slinky.slurm.net/v1beta1";
  kind: "RestApi";
  metadata: ObjectMeta & { name: string; namespace: string };
  spec: RestApiSpec;
}

export interface TokenSpec {
  jwtHs256KeyRef?: {
    key: string;
    name?: string;
    namespace?: string;
    optional?: boolean;
  };
  jwtKeyRef?: {
    key: string;
    name?: string;
    namespace?: string;
    optional?: boolean;
  };
  lifetime?: string;
  refresh?: boolean;
  secretRef?: {
    key: string;
    name?: string;
    optional?: boolean;
  };
  username: string;
}

/** @public */
export interface Token {
  apiVersion: "slinky.slurm.net/v1beta1";
  kind: "Token";
  metadata: ObjectMeta & { name: string; namespace: string };
  spec: TokenSpec;
}
